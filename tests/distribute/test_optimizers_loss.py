"""Whether losses are summed or averaged over towers."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import MEAN, SUM
from tpack.distribute.optimizers import get_loss_reduction


def test_without_a_loss_it_is_the_mean(graph):
    assert get_loss_reduction() == MEAN


@pytest.mark.parametrize("reduction", tf.losses.Reduction.all())
def test_it_goes_with_the_last_loss(graph, reduction):
    tf.losses.mean_squared_error([1.0], [2.0])
    tf.losses.mean_squared_error([1.0], [2.0], reduction=reduction)
    assert get_loss_reduction() == (SUM if reduction == tf.losses.Reduction.SUM else MEAN)
