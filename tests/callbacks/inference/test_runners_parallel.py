import pytest

from tests.helpers.toy_inference import flow, make_trainer, uneven_batches
from tpack.callbacks.inference.inferencers import (
    BinaryClassificationStats,
    ClassificationError,
    Inferencer,
    ScalarStats,
)
from tpack.callbacks.inference.runners import DataParallelInferenceRunner, InferenceRunner
from tpack.errors import ConfigError
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import QueueInput
from tpack.input_source.staging import StagingInput


class Seen(Inferencer):
    """Keeps every batch."""

    def __init__(self):
        self.passes = []

    def _before_inference(self):
        self.passes.append([])

    def _get_fetches(self):
        return ["x"]

    def _on_fetches(self, results):
        self.passes[-1].append(results[0].tolist())


def run(graph, make_runner):
    infs = [ClassificationError(), ScalarStats(["cost", "score"]), BinaryClassificationStats("prediction", "label")]
    seen = Seen()
    trainer = make_trainer().train([make_runner([*infs, seen])], steps_per_epoch=1, epochs=(1, 2))
    return trainer.recorder.scalars, seen.passes


@pytest.mark.parametrize("num_batches", [1, 7, 16])
@pytest.mark.parametrize("num_towers", [1, 2, 3, 8])
def test_k_towers_equal_one(graph, rng, num_towers, num_batches):
    batches = uneven_batches(rng, num_batches)
    scalars, passes = run(graph, lambda infs: DataParallelInferenceRunner(flow(batches), infs, num_towers))
    assert passes == [[batch[0].tolist() for batch in batches]] * 2
    with type(graph)().as_default() as other:
        expected, _ = run(other, lambda infs: InferenceRunner(flow(batches), infs))
    assert scalars == expected
    assert len(scalars) == 10


def test_devices_and_inputs_can_be_chosen(graph, rng):
    batches = uneven_batches(rng, 4)
    _, passes = run(graph, lambda infs: DataParallelInferenceRunner(QueueInput(flow(batches)), infs, [1, 3], "Other"))
    assert passes[1] == [batch[0].tolist() for batch in batches]
    assert graph.get_tensor_by_name("Other1/score:0").device == "/device:CPU:3"


def test_staged_input_begins_anew_too(graph, rng):
    batches = uneven_batches(rng, 5)
    make_input = StagingInput(QueueInput(flow(batches)))
    _, passes = run(graph, lambda infs: DataParallelInferenceRunner(make_input, infs, 2))
    assert passes == [[batch[0].tolist() for batch in batches]] * 2


def test_feed_input_for_several_towers_is_an_error(rng):
    with pytest.raises(ConfigError, match="got a FeedInput for several devices: expected its DataFlow"):
        DataParallelInferenceRunner(FeedInput(flow(uneven_batches(rng, 3))), Seen(), 2)


def test_feed_input_for_one_tower_is_fine(graph, rng):
    batches = uneven_batches(rng, 3)
    _, passes = run(graph, lambda infs: DataParallelInferenceRunner(FeedInput(flow(batches)), infs, 1))
    assert passes[0] == [batch[0].tolist() for batch in batches]
