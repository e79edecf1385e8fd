"""A few batches of each evaluation are tried before the first step; nothing shows unless one fails."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_inference import make_trainer, uneven_batches
from tests.helpers.toy_training import Line, Recorder, line_input, points
from tests.helpers.worker_job import run_workers
from tpack.callbacks.inference.inferencers import Inferencer, ScalarStats
from tpack.callbacks.inference.runners import DataParallelInferenceRunner, InferenceRunner
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.dataflow.sources import DataFromGenerator, DataFromList
from tpack.errors import CallbackError, ConfigError, StopTraining
from tpack.input_source.queue_input import QueueInput
from tpack.input_source.tensors import TensorInput
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated


class Seen(Inferencer):
    """Notes the steps at which batches came, and what is called beside."""

    def __init__(self):
        self.batches = []
        self.passes = []

    def _get_fetches(self):
        return ["prediction"]

    def _before_inference(self):
        self.passes.append(self.global_step)

    def _on_fetches(self, results):
        self.batches.append((self.global_step, results[0].tolist()))

    def _after_inference(self):
        return {"at_step": self.global_step}


def train(runner, trainer=None, recorder=None, **options):
    config = TrainConfig(
        model=Line(),
        data=line_input(),
        callbacks=[runner, *([recorder] if recorder else [])],
        steps_per_epoch=3,
        max_epoch=1,
        **options.pop("config", {}),
    )
    launch_train_with_config(config, trainer or SimpleTrainer(), **options)


@pytest.mark.parametrize(
    ("make_runner", "towers", "tried"),
    [
        (lambda seen: InferenceRunner(DataFromList(points(), shuffle=False), seen), 1, 2),
        (lambda seen: InferenceRunner(QueueInput(DataFromList(points(), shuffle=False)), seen), 1, 2),
        (lambda seen: DataParallelInferenceRunner(DataFromList(points(), shuffle=False), seen, 3), 3, 6),
        (lambda seen: InferenceRunner(DataFromList(points()[:1], shuffle=False), seen), 1, 1),
    ],
    ids=["feed", "queue", "towers", "one batch"],
)
def test_each_tower_tries_two_batches_before_the_first_step(log_dir, make_runner, towers, tried, capfd):
    seen = Seen()
    train(make_runner(seen), SyncMultiGPUTrainerReplicated(towers) if towers > 1 else SimpleTrainer())
    assert seen.passes == [0, 3]
    assert [step for step, _ in seen.batches].count(0) == tried
    # Afterwards each batch is evaluated once, from the first one on: their points ascend.
    firsts = [values[0] for step, values in seen.batches if step == 3]
    assert len(firsts) == (1 if tried == 1 else 8)
    assert firsts == sorted(set(firsts))


def test_nothing_is_shown_or_reported_of_a_try_that_is_fine(log_dir, capfd):
    shown = []
    for steps in (0, 2):
        recorder = Recorder()
        runner = InferenceRunner(DataFromList(points(), shuffle=False), ScalarStats("cost"))
        train(runner, recorder=recorder, config={"sanity_steps": steps})
        history = recorder.trainer.monitors.get_history("validation_cost")
        assert len(history) == 1
        text = capfd.readouterr()
        shown.append([line for line in (text.out + text.err).splitlines() if "Another training" not in line])
    assert len(shown[0]) == len(shown[1]) > 10


def broken():
    yield points()[0]
    raise ValueError("the second file is damaged")


class Broken(DataFromGenerator):
    def __len__(self):
        return 8


@pytest.mark.parametrize("several", [False, True])
def test_an_error_names_the_callback_before_any_step(log_dir, several):
    seen, recorder, flow = Seen(), Recorder(), Broken(broken)
    runner = DataParallelInferenceRunner(flow, seen, 2) if several else InferenceRunner(flow, seen)
    trainer = SyncMultiGPUTrainerReplicated(2) if several else SimpleTrainer()
    with pytest.raises(CallbackError, match=r"InferenceRunner cannot evaluate the first \d .*sanity_steps=0") as caught:
        train(runner, trainer, recorder)
    assert "damaged" in str(caught.value)
    assert not [call for call in recorder.calls if call[0] == "before_run"]


def test_none_is_tried_where_that_is_not_wanted(log_dir):
    for options, last in ({"config": {"sanity_steps": 0}}, 3), ({"fast_dev_run": True}, 1):
        seen = Seen()
        train(InferenceRunner(DataFromList(points(), shuffle=False), seen), **options)
        assert seen.passes == [last]


def test_data_that_cannot_restart_are_not_tried(log_dir):
    counter = []

    def tensors():
        number = tf.py_func(lambda: counter.append(0) or np.float32(len(counter)), [], tf.float32)
        number.set_shape([])
        return [tf.fill([4], number), tf.fill([4], number)]

    seen = Seen()
    train(InferenceRunner(TensorInput(tensors, size=3), seen))
    assert [step for step, _ in seen.batches] == [3, 3, 3]
    assert len(counter) == 3


def test_a_runner_inside_of_a_trigger_is_tried_too(log_dir):
    seen = Seen()
    train(PeriodicTrigger(InferenceRunner(DataFromList(points(), shuffle=False), seen), every_k_epochs=5))
    assert [step for step, _ in seen.batches] == [0, 0]


def test_a_request_to_stop_is_no_error(log_dir):
    class Stops(Seen):
        def _on_fetches(self, results):
            raise StopTraining("seen enough")

    recorder = Recorder()
    train(InferenceRunner(DataFromList(points(), shuffle=False), Stops()), recorder=recorder)
    assert not [call for call in recorder.calls if call[0] == "before_run"]


def test_each_worker_tries_its_share_and_an_error_of_one_ends_all(tmp_path):
    chief, other = run_workers("tests.helpers.expecting_workers.broken_evaluation", 2, tmp_path)
    assert "before step 1: InferenceRunner cannot evaluate the first 2 batch(es)" in other.value
    assert "before step 1" in chief.value
    assert "worker 1" in chief.value


def test_a_trainer_without_a_number_tries_nothing(graph, rng):
    runner = InferenceRunner(DataFromList(uneven_batches(rng, 5), shuffle=False), Seen())
    make_trainer().train([runner], steps_per_epoch=1, epochs=(1, 1))
    assert runner._infs[0].passes == [1]


def test_a_wrong_number_is_an_error():
    with pytest.raises(ConfigError, match="sanity_steps=-1: expected an integer of at least 0"):
        TrainConfig(model=Line(), data=line_input(), sanity_steps=-1)
