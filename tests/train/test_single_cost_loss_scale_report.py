"""What the monitors are told of the scaling of the cost, and the warning when nothing is learned."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.errors import NumericsError
from tpack.graph_builder.loss_scale import DynamicLossScale
from tpack.graph_builder.precision import LossScaling
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.train.single_cost import LossScaleReport


def train(finite_steps, *, checks_cost=True, **options):
    """Train two steps an epoch, of which those in `finite_steps` have finite gradients."""
    loss_scale = DynamicLossScale(LossScaling(initial=8.0))
    loss_scale.observe(tf.reduce_any(tf.equal(get_global_step_var(), np.array(finite_steps, "int64"))))
    trainer = FakeTrainer(loss_scale.update())
    with captured_log() as lines:
        trainer.train([LossScaleReport(loss_scale, checks_cost=checks_cost)], **options)
    return trainer.recorder, [line for line in lines if "were skipped" in line]


def test_factor_and_skipped_steps_are_told_each_epoch(graph):
    recorder, warnings = train([1, 2, 3, 5], epochs=(1, 3))
    assert recorder.values("loss_scale") == [4.0, 4.0, 2.0]
    assert recorder.values("skipped_steps") == [1, 1, 2]
    assert warnings == []


@pytest.mark.parametrize("global_step", [0, 4])
def test_an_epoch_that_was_skipped_as_a_whole_is_warned_of(graph, global_step):
    recorder, warnings = train([global_step, global_step + 1, global_step + 4], epochs=(1, 3), global_step=global_step)
    assert recorder.values("skipped_steps") == [0, 2, 3]
    assert len(warnings) == 1
    assert "All 2 steps of epoch 2 were skipped" in warnings[0]


def test_an_epoch_skipped_with_the_smallest_factor_is_an_error(graph):
    with pytest.raises(NumericsError, match=r"all 2 steps of epoch 3 were skipped: .* the cost scaled by 1."):
        train([0], epochs=(1, 9))


def test_the_error_can_be_turned_off(graph):
    recorder, warnings = train([], epochs=(1, 4), checks_cost=False)
    assert recorder.values("loss_scale") == [2.0, 1.0, 1.0, 1.0]
    assert len(warnings) == 4
