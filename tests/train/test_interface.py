import json

import numpy as np
import psutil
import pytest

from tests.helpers.toy_training import Line, Recorder, line_input, points
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.dataflow.parallel.process_runner import MultiProcessRunner
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError
from tpack.graph_builder.model_desc import ModelDescBase
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import QueueInput
from tpack.input_source.staging import StagingInput
from tpack.tfutils.checkpoint import latest_checkpoint
from tpack.train import interface
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainer import Trainer
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated


@pytest.mark.parametrize("make_trainer", [SimpleTrainer, lambda: SyncMultiGPUTrainerReplicated(4)])
def test_a_model_is_trained_with_everything_around_it(log_dir, make_trainer):
    recorder = Recorder()
    config = TrainConfig(
        model=Line(),
        dataflow=DataFromList(points(), shuffle=False),
        callbacks=[recorder, ModelSaver()],
        steps_per_epoch=100,
        max_epoch=2,
    )
    launch_train_with_config(config, make_trainer())

    np.testing.assert_allclose([recorder.weights["w"], recorder.weights["b"]], [2, 1], rtol=1e-2)
    assert [entry["epoch_num"] for entry in json.loads((log_dir / "stats.json").read_text())] == [1, 2]
    assert latest_checkpoint(str(log_dir)).endswith("model-200")
    assert list(log_dir.glob("events.out.tfevents.*"))
    assert "w" in (log_dir / "log.log").read_text()


def test_workers_of_the_data_end_with_training(log_dir):
    before = psutil.Process().children()
    ds = MultiProcessRunner(DataFromList(points()), 4, 1)
    seen = []

    class Look(Callback):
        def _trigger(self):
            seen.append([child for child in psutil.Process().children() if child not in before])

    config = TrainConfig(model=Line(), dataflow=ds, callbacks=[Look()], steps_per_epoch=5, max_epoch=1)
    trainer = SimpleTrainer()
    launch_train_with_config(config, trainer)
    assert len(seen) == len(seen[0]) == 1
    assert psutil.Process().children() == before
    # Neither was garbage collected.
    assert trainer.input_source.ds is ds


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


def test_wrong_arguments_are_errors():
    config = TrainConfig(model=Line(), data=line_input())
    with pytest.raises(ConfigError, match="trainer must be a SingleCostTrainer"):
        launch_train_with_config(config, Trainer())
    with pytest.raises(ConfigError, match="config must be a TrainConfig, got 3"):
        launch_train_with_config(3, SimpleTrainer())
    with pytest.raises(ConfigError, match="needs a ModelDesc as its model, got None"):
        launch_train_with_config(TrainConfig(data=line_input()), SimpleTrainer())
    with pytest.raises(ConfigError, match="needs a ModelDesc as its model"):
        launch_train_with_config(TrainConfig(model=ModelDescBase(), data=line_input()), SimpleTrainer())
