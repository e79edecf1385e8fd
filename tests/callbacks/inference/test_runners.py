import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer, noting
from tests.helpers.toy_inference import flow, make_trainer, uneven_batches
from tpack.callbacks.base import Callback
from tpack.callbacks.inference.inferencers import ClassificationError, Inferencer, ScalarStats
from tpack.callbacks.inference.runners import InferenceRunner, InferenceRunnerBase
from tpack.dataflow.sources import DataFromGenerator
from tpack.errors import CallbackError, ConfigError, DataExhaustedError, TowerError, WrongTypeError
from tpack.input_source.feed import FeedInput


@noting("setup_graph", "before_train", "before_inference", "after_inference", "after_train")
class Life(Inferencer):
    """Writes down when it is called."""

    def __init__(self):
        self.calls = []

    def _get_fetches(self):
        return ["x"]

    def _on_fetches(self, results):
        self.calls.append(results[0].tolist())


def test_inferencers_live_with_the_runner_and_see_each_batch(graph, rng):
    life, batches = Life(), uneven_batches(rng, 3)
    make_trainer().train([InferenceRunner(flow(batches), life)], epochs=(1, 2))
    one_pass = ["before_inference", *(batch[0].tolist() for batch in batches), "after_inference"]
    assert life.calls == ["setup_graph", "before_train", *one_pass, *one_pass, "after_train"]


def test_hooks_run_around_inference_only(graph, rng):
    class Count(tf.train.SessionRunHook):
        begun = runs = ended = 0

        def begin(self):
            self.begun += 1

        def after_run(self, run_context, run_values):
            self.runs += 1

        def end(self, session):
            self.ended += 1

    hook = Count()
    runner = InferenceRunner(flow(uneven_batches(rng, 3)), Life())
    runner.register_hook(hook)
    make_trainer().train([runner], epochs=(1, 2))
    assert (hook.begun, hook.runs, hook.ended) == (1, 6, 1)
    with pytest.raises(CallbackError, match="was set up already: expected hooks before training"):
        runner.register_hook(hook)


def test_something_else_than_a_hook_is_an_error(rng):
    with pytest.raises(WrongTypeError, match="^HookToCallback got hook="):
        InferenceRunner(flow(uneven_batches(rng, 3)), Life()).register_hook(Callback())


@pytest.mark.parametrize(
    ("infs", "message"),
    [
        ([], " with 0 entries: expected at least 1"),
        ([Callback()], r"\[0\]=a Callback: expected an Inferencer"),
        (3, "=3: expected an Inferencer or a list of Inferencers"),
    ],
)
def test_something_else_than_inferencers_is_an_error(rng, infs, message):
    with pytest.raises(ConfigError, match=f"InferenceRunner got infs{message}"):
        InferenceRunner(flow(uneven_batches(rng, 3)), infs)


def test_unknown_size_is_an_error_at_once():
    def generate():
        yield [np.zeros(1, np.float32), np.zeros(1, np.int32)]

    with pytest.raises(ConfigError, match="got FeedInput of unknown size: expected an input with a size"):
        InferenceRunner(DataFromGenerator(generate), Life())


def test_no_batches_are_an_error_at_once():
    with pytest.raises(ConfigError, match="got an input of size 0: expected at least one batch"):
        InferenceRunner(flow([]), Life())


def test_data_that_end_early_are_an_error(graph, rng):
    class Liar(FeedInput):
        def _size(self):
            return 5

    runner = InferenceRunner(Liar(flow(uneven_batches(rng, 3)), infinite=False), Life())
    with pytest.raises(DataExhaustedError, match="data of InferenceRunner ended after 3 batches, .* given as 5"):
        make_trainer().train([runner])


def test_tensor_that_does_not_exist_is_an_error(graph, rng):
    runner = InferenceRunner(flow(uneven_batches(rng, 3)), ClassificationError("wrong"))
    with pytest.raises(TowerError, match="no tensor 'wrong:0'"):
        make_trainer().train([runner])


def test_tensor_of_the_training_tower_is_an_error(graph, rng):
    runner = InferenceRunner(flow(uneven_batches(rng, 3)), ScalarStats("only_in_training"))
    with pytest.raises(CallbackError, match="of which one takes the data of .*: expected tensors"):
        make_trainer().train([runner])


def test_failure_is_that_of_the_input(graph, rng):
    error = OSError("thread died")

    class Failing(FeedInput):
        def _get_callbacks(self):
            broken = Callback()
            broken.failure = lambda: error
            return [*super()._get_callbacks(), broken]

    runner = InferenceRunner(Failing(flow(uneven_batches(rng, 3))), Life())
    assert runner.failure() is None
    runner.setup_graph(make_trainer())
    assert runner.failure() is error
    assert runner.implements("failure")


def test_a_trainer_without_a_tower_function_is_an_error(graph, rng):
    runner = InferenceRunner(flow(uneven_batches(rng, 3)), Life())
    with pytest.raises(CallbackError, match="got tower_func=None and a FakeTrainer without one"):
        runner.setup_graph(FakeTrainer())


def test_base_builds_no_towers(graph, rng):
    runner = InferenceRunnerBase(FeedInput(flow(uneven_batches(rng, 3))), Life())
    with pytest.raises(NotImplementedError, match="InferenceRunnerBase must override _build_towers"):
        runner.setup_graph(make_trainer())
