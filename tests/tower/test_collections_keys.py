"""The groups of collections that towers treat specially."""

import tensorflow.compat.v1 as tf

from tpack.tfutils import summary as tfutils_keys
from tpack.tower import collections


def test_groups_do_not_overlap():
    groups = [collections.SUMMARY_KEYS, collections.LOSS_KEYS, collections.VARIABLE_KEYS, (tf.GraphKeys.UPDATE_OPS,)]
    together = [key for group in groups for key in group]
    assert len(set(together)) == len(together)


def test_moving_summary_key_is_defined_once():
    assert tfutils_keys.MOVING_SUMMARY_OPS_KEY is collections.MOVING_SUMMARY_OPS_KEY
    assert collections.MOVING_SUMMARY_OPS_KEY == "MOVING_SUMMARY_OPS"
