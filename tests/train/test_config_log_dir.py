"""Each training of a process has a directory of its own, unless a name is given again."""

import os
import re

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line, line_input
from tpack.callbacks.monitors.writers import TFEventWriter
from tpack.callbacks.saver import ModelSaver
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer
from tpack.utils import logger


@pytest.fixture(autouse=True)
def no_directory():
    yield
    logger.close_logger_dir()


def config(max_epoch=1, kind=TrainConfig, **arguments):
    arguments = {"callbacks": [ModelSaver()], "steps_per_epoch": 4, **arguments}
    return kind(model=Line(), data=line_input(), max_epoch=max_epoch, **arguments)


def launch(config, **options):
    with tf.Graph().as_default():
        trainer = SimpleTrainer()
        launch_train_with_config(config, trainer, **options)
    return trainer


def contents(directory):
    return {name: (directory / name).read_bytes() for name in os.listdir(directory)}


def names(directory):
    return {path.name for path in directory.iterdir()}


def test_second_training_without_a_name_leaves_the_first_one_alone(tmp_path):
    launch(config(3, log_dir=tmp_path / "run"))
    before = contents(tmp_path / "run")
    launch(config(1))
    second = os.path.basename(logger.get_logger_dir())
    launch(config(1, callbacks=[], monitors=[TFEventWriter()]))
    third = os.path.basename(logger.get_logger_dir())
    after = contents(tmp_path / "run")
    # The last line of the log says where the second one is.
    assert b"Another training of this process has" not in after["log.log"]
    assert after == before
    assert names(tmp_path) == {"run", second, third}
    assert all(re.fullmatch(r"run-\d{8}-\d{6}(-1)?", name) for name in (second, third))
    assert {"checkpoint", "model-4.index", "stats.json", "run.json", "log.log"} <= names(tmp_path / second)
    text = (tmp_path / second / "log.log").read_text()
    assert f"Another training of this process has {tmp_path / 'run'}: the log directory is {tmp_path / second}" in text
    assert "Start Epoch 1" in text
    assert not {"checkpoint", "stats.json"} & names(tmp_path / third)


def test_training_of_an_own_trainer_leaves_the_first_one_alone(tmp_path):
    launch(config(2, log_dir=tmp_path / "run"))
    before = contents(tmp_path / "run")
    with tf.Graph().as_default():
        trainer = SimpleTrainer()
        trainer.setup_graph(Line().get_input_signature(), line_input(), Line().build_graph, Line().optimizer)
        trainer.train_with_defaults(callbacks=[ModelSaver()], steps_per_epoch=1, max_epoch=1)
    assert {name: content for name, content in contents(tmp_path / "run").items() if name != "log.log"} == {
        name: content for name, content in before.items() if name != "log.log"
    }


def test_same_name_again_moves_the_first_one_aside(tmp_path):
    for last in (3, 1):
        launch(config(last, log_dir=tmp_path / "run"))
    (aside,) = names(tmp_path) - {"run"}
    assert "model-12.index" in names(tmp_path / aside)
    assert "model-4.index" in names(tmp_path / "run")
    assert "model-12.index" not in names(tmp_path / "run")


def test_each_config_trains_in_its_own_directory_whatever_was_set_meanwhile(tmp_path):
    configs = [config(last, log_dir=tmp_path / name) for name, last in (("a", 1), ("b", 2))]
    for each in configs:
        launch(each)
    assert names(tmp_path) == {"a", "b"}
    assert (tmp_path / "a" / "checkpoint").read_text().count("model-4") == 2
    assert "model-8.index" not in names(tmp_path / "a")
    assert "model-8.index" in names(tmp_path / "b")
    assert "Training has finished" in (tmp_path / "a" / "log.log").read_text()


def test_configs_of_one_directory_do_not_mix_their_files(tmp_path):
    configs = [config(last, log_dir=tmp_path / "run") for last in (3, 1)]
    for each in configs:
        launch(each)
    (aside,) = names(tmp_path) - {"run"}
    assert "model-12.index" in names(tmp_path / aside)
    assert "model-12.index" not in names(tmp_path / "run")


def test_run_that_resumes_goes_on_in_the_directory_of_the_last_training(tmp_path):
    launch(config(1, log_dir=tmp_path / "run"))
    launch(config(3, AutoResumeTrainConfig))
    launch(config(4, AutoResumeTrainConfig))
    assert names(tmp_path) == {"run"}
    assert "model-16.index" in names(tmp_path / "run")


def test_quick_try_before_a_training_leaves_it_the_directory(tmp_path):
    logger.set_logger_dir(tmp_path / "run")
    launch(config(), fast_dev_run=True)
    launch(config())
    assert names(tmp_path) == {"run"}


def test_second_training_on_remote_storage_leaves_the_first_one_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("TPACK_REMOTE_CACHE", str(tmp_path / "cache"))
    launch(config(3, log_dir=f"local://{tmp_path}/there/run"))
    before = contents(tmp_path / "there" / "run")
    launch(config(1))
    logger.close_logger_dir()
    (second,) = names(tmp_path / "there") - {"run"}
    assert {"model-4.index", "stats.json"} <= names(tmp_path / "there" / second)
    after = contents(tmp_path / "there" / "run")
    # The end of the log, and who writes there, are of the end of the first one.
    kept = before.keys() - {"log.log", ".tpack.run.json"}
    assert all(after[name] == before[name] for name in kept)
