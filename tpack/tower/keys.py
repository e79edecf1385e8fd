"""Graph collections that towers treat specially."""

import tensorflow.compat.v1 as tf

MOVING_SUMMARY_OPS_KEY = "MOVING_SUMMARY_OPS"
"""Update ops of moving averages of scalars, run with every step."""

SUMMARY_KEYS = (tf.GraphKeys.SUMMARIES, MOVING_SUMMARY_OPS_KEY)
"""Written once a run, so only the main training tower adds to them."""

LOSS_KEYS = (tf.GraphKeys.LOSSES, tf.GraphKeys.REGULARIZATION_LOSSES)
"""Asked for by the tower function that filled them, so a tower sees its own part only."""

VARIABLE_KEYS = (
    tf.GraphKeys.GLOBAL_VARIABLES,
    tf.GraphKeys.LOCAL_VARIABLES,
    tf.GraphKeys.MODEL_VARIABLES,
    tf.GraphKeys.TRAINABLE_VARIABLES,
)
"""Shared by all towers, unless each has its own variables."""
