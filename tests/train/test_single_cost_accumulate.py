"""Trainings whose gradients are applied once in several steps lose none of them, wherever they end."""

import os
import signal
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.drawn_weights import RATE, Drawn, drawn, train
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.errors import StopTraining
from tpack.graph_builder.precision import LossScaling, PrecisionPolicy
from tpack.schedules import Step
from tpack.tfutils.checkpoint import latest_checkpoint
from tpack.tfutils.optimizer import AccumGradOptimizer
from tpack.tfutils.sessinit import SaverRestore
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import (
    SimpleTrainer,
    SyncMultiGPUTrainerHierarchical,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)


def replicated(towers: int, **options: Any) -> Any:
    return lambda: SyncMultiGPUTrainerReplicated(towers, **options)


MAKES = {
    "one tower": (1, replicated(1, accumulate=4)),
    "two towers": (2, replicated(2, accumulate=4)),
    "copied towers": (4, replicated(4, accumulate=4)),
    "ring": (2, replicated(2, accumulate=4, mode="xring")),
    "halves": (4, lambda: SyncMultiGPUTrainerHierarchical(4, accumulate=4)),
    "shared": (2, lambda: SyncMultiGPUTrainerParameterServer(2, accumulate=4)),
    "compiled": (2, replicated(2, accumulate=4, compile="xla")),
}


@pytest.mark.parametrize("name", MAKES)
def test_an_epoch_that_ends_in_the_middle_applies_what_there_is(name: str) -> None:
    num_towers, make = MAKES[name]
    assert train(make).seen == [[each] * num_towers for each in drawn(num_towers, [4, 6, 10, 12])]


def test_several_steps_a_call_are_the_same() -> None:
    assert train(replicated(2, accumulate=4), steps_per_call=5).values["w"] == drawn(2, [4, 6, 10, 12])[-1]


def test_a_schedule_gives_the_steps_of_each_epoch() -> None:
    weights = train(replicated(2, accumulate=Step(1, {1: 4})))
    assert weights.first == drawn(2, [1, 2, 3, 4, 5, 6, 10, 12])


@pytest.mark.parametrize("towers", [1, 2])
def test_weights_and_slots_equal_those_of_the_optimizer_that_accumulates(towers: int) -> None:
    def momentum() -> Any:
        return tf.train.MomentumOptimizer(RATE, 0.5)

    (ours, other) = (
        train(replicated(towers, accumulate=4), Drawn(momentum), max_epoch=1, steps_per_epoch=12),
        train(replicated(towers), Drawn(lambda: AccumGradOptimizer(momentum(), 4)), max_epoch=1, steps_per_epoch=12),
    )
    assert {"w", "w/Momentum", "table", "table/Momentum", "global_step"} == set(ours.last)
    for name, value in ours.last.items():
        np.testing.assert_array_equal(value, other.last[name], err_msg=name)
    assert ours.last["table"].any()


class EndAt(Callback):
    """Ends training after a step."""

    def __init__(self, step: int, how: str) -> None:
        self._step, self._how = step, how

    def _trigger_step(self) -> None:
        if self.global_step == self._step:
            if self._how == "signal":
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                raise StopTraining("the test wants it", to_be_continued=self._how == "time")


@pytest.mark.parametrize("how", ["signal", "stop", "time"])
def test_an_end_in_the_middle_applies_what_there_is_and_a_resumed_run_goes_on(how: str, tmp_path: Any) -> None:
    options = {"config": AutoResumeTrainConfig, "log_dir": str(tmp_path)}
    make, callbacks = replicated(2, accumulate=4), [EndAt(7, how), ModelSaver()]
    if how == "signal":
        with pytest.raises(SystemExit):
            train(make, callbacks=callbacks, **options)
    else:
        assert train(make, callbacks=callbacks, **options).values["w"] == drawn(2, [4, 6, 7])[-1]
    if how != "stop":
        path = latest_checkpoint(str(tmp_path))
        assert tf.train.load_checkpoint(path).get_tensor("w") == drawn(2, [4, 6, 7])[-1]
        # A third is not exact in binary.
        np.testing.assert_allclose(train(make, **options).first, drawn(2, [4, 6, 7, 10, 12])[7:], rtol=1e-14)


def test_a_checkpoint_in_the_middle_has_all_gradients_and_loads_into_any_trainer(tmp_path: Any) -> None:
    saver = PeriodicTrigger(ModelSaver(checkpoint_dir=str(tmp_path)), every_k_steps=5)
    weights = train(replicated(2, accumulate=4), callbacks=[saver], max_epoch=1)
    assert weights.first[-1] == drawn(2, [4, 5, 6])[-1]
    path = str(tmp_path / "model-5")
    assert {name for name, _ in tf.train.list_variables(path)} == {"w", "table", "global_step"}
    for make in (SimpleTrainer, replicated(3), lambda: SyncMultiGPUTrainerParameterServer(2)):
        restored = train(make, session_init=SaverRestore(path), max_epoch=1, steps_per_epoch=1)
        assert restored.start == drawn(2, [4, 5])[-1]


def test_a_scaled_cost_with_an_overflow_leaves_out_the_steps_that_are_applied_with_it() -> None:
    policy = PrecisionPolicy(loss_scaling=LossScaling(initial=4.0, growth_steps=100))
    weights = train(replicated(2, accumulate=4, precision=policy), Drawn(bad_step=4, bad_tower=1, dtype="float32"))
    # Steps 5 and 6 end the first epoch.
    assert weights.first == drawn(2, [4, 6, 10, 12], left_out=[6])
    assert weights.last["loss_scale/skipped_steps"] == 2
    assert weights.last["loss_scale/scale"] == 2
