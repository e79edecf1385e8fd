"""The groups of collections that towers treat specially."""

import tensorflow.compat.v1 as tf

from tpack.tfutils import summary as tfutils_keys
from tpack.tower import keys


def test_groups_do_not_overlap():
    groups = [keys.SUMMARY_KEYS, keys.LOSS_KEYS, keys.VARIABLE_KEYS, (tf.GraphKeys.UPDATE_OPS,)]
    together = [key for group in groups for key in group]
    assert len(set(together)) == len(together)


def test_moving_summary_key_is_defined_once():
    assert tfutils_keys.MOVING_SUMMARY_OPS_KEY is keys.MOVING_SUMMARY_OPS_KEY
    assert keys.MOVING_SUMMARY_OPS_KEY == "MOVING_SUMMARY_OPS"
