"""Names of the graph collections that summaries and their callbacks share."""

from tpack.tower.keys import MOVING_SUMMARY_OPS_KEY

__all__ = ["MOVING_SUMMARY_OPS_KEY"]
