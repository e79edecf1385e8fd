"""Names of the graph collections that tpack adds to those of TensorFlow."""

MOVING_SUMMARY_OPS_KEY = "MOVING_SUMMARY_OPS"
"""Operations that update the moving averages of summaries; the callback MovingAverageSummary runs them every step."""
