"""The plan of a run is worked out before anything is built."""

import dataclasses

import pytest

from tests.helpers.toy_training import Line, line_input, points
from tpack.callbacks.progress import ProgressBar
from tpack.callbacks.saver import ModelSaver
from tpack.dataflow.sources import DataFromList
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import QueueInput
from tpack.input_source.staging import StagingInput
from tpack.train import interface
from tpack.train.config import TrainConfig
from tpack.train.debug_options import DebugOptions
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated


def test_a_plan_is_made_before_anything_is_built_and_cannot_change():
    config = TrainConfig(
        model=Line(), dataflow=DataFromList(points()), callbacks=[ModelSaver()], max_epoch=7, steps_per_call=3
    )
    trainer = SyncMultiGPUTrainerReplicated(2)
    plan = interface.plan_run(config, config.model, trainer, DebugOptions(fast_dev_run=True))
    assert (trainer.model, trainer.steps_per_call, trainer.graph.get_operations()) == (None, 1, [])
    assert (plan.steps_per_call, plan.facts, plan.signature) == (3, None, config.model.get_input_signature())
    assert not any(isinstance(callback, ModelSaver) for callback in plan.config.callbacks)
    assert (config.steps_per_epoch, config.max_epoch) == (1, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.data = None


def test_a_plan_sets_all_that_it_decides():
    config = TrainConfig(
        model=Line(),
        data=line_input(),
        steps_per_epoch=5,
        starting_epoch=3,
        check_cost=False,
        extra_callbacks=[ProgressBar()],
    )
    trainer = SimpleTrainer()
    plan = interface.plan_run(config, config.model, trainer, DebugOptions())
    plan.set_options(trainer)
    assert (trainer.model, trainer.checks_cost, trainer.steps_per_call) == (config.model, False, 1)
    assert trainer.run_facts["steps_per_epoch"] == 5
    assert plan.first_global_step == 10
    assert plan.config is config


def test_batches_are_staged_on_several_gpus_only():
    source = TrainConfig(model=Line(), dataflow=DataFromList(points())).data
    gpus = ("/device:GPU:0", "/device:GPU:1")
    assert isinstance(source, QueueInput)
    assert interface._staged(source, ("/device:CPU:0", "/device:CPU:1")) is source
    assert interface._staged(source, gpus[:1]) is source
    staged = interface._staged(source, gpus)
    assert isinstance(staged, StagingInput)
    assert interface._staged(staged, gpus) is staged
    fed = FeedInput(DataFromList(points()))
    assert interface._staged(fed, gpus) is fed
