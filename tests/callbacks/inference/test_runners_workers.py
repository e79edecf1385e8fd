"""Evaluation by several workers gives the statistics of one process over all data, to the last bit."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_peers import run_workers
from tests.helpers.log_lines import captured_log
from tests.helpers.toy_inference import flow, make_trainer, uneven_batches
from tpack.callbacks.inference.inferencers import (
    BinaryClassificationStats,
    ClassificationError,
    Inferencer,
    ScalarStats,
)
from tpack.callbacks.inference.runners import DataParallelInferenceRunner, InferenceRunner
from tpack.dataflow import BatchData, DataFromGenerator, DataFromList, ShardData
from tpack.errors import ClusterError, ConfigError
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import BatchQueueInput


class Largest(Inferencer):
    """The largest score, merged by a protocol of its own, or not at all."""

    def _before_inference(self) -> None:
        self.largest = -np.inf

    def _get_fetches(self) -> list[str]:
        return ["score"]

    def _on_fetches(self, results: Any) -> None:
        self.largest = max(self.largest, float(results[0].max()))

    def _after_inference(self) -> dict[str, float]:
        return {"largest_score": self.largest}


class MergedLargest(Largest):
    def _state(self) -> Any:
        return (self.largest,)

    def _merge(self, states: Any) -> None:
        self.largest = max(state[0] for state in states)


class NotedSizes(ScalarStats):
    """Accumulates something that the class which it derives from does not know to merge."""

    def _before_inference(self) -> None:
        super()._before_inference()
        self.sizes: list[int] = []

    def _on_fetches(self, results: Any) -> None:
        super()._on_fetches(results)
        self.sizes.append(np.size(results[0]))

    def _after_inference(self) -> dict[str, float]:
        return {"largest_batch": max(self.sizes)}


class Renamed(ClassificationError):
    """Only reports in another way, which needs no merging."""

    def _after_inference(self) -> dict[str, float]:
        return {f"other_{name}": value for name, value in super()._after_inference().items()}


def inferencers() -> list[Inferencer]:
    return [
        ClassificationError(),
        BinaryClassificationStats("prediction", "label"),
        ScalarStats(["cost", "score"]),
        MergedLargest(),
        Renamed(summary_name="error"),
    ]


def evaluate(make: Any, peers: Any = None) -> list[tuple[str, float, int, int]]:
    """Evaluate in two epochs; return all that was reported."""
    with tf.Graph().as_default():
        trainer = make_trainer()
        trainer.peers, trainer.is_chief = peers, peers is None or peers.rank == 0
        return trainer.train([make()], epochs=(1, 2)).recorder.scalars


def by_one(input: Any, infs: Any) -> InferenceRunner:
    return InferenceRunner(input, infs)


def by_two(input: Any, infs: Any) -> DataParallelInferenceRunner:
    return DataParallelInferenceRunner(input, infs, 2)


@pytest.mark.parametrize("runner", [by_one, by_two])
def test_statistics_of_uneven_batches_are_those_of_one_process(runner, rng):
    batches = uneven_batches(rng, 7)
    batches[2] = [part[:1] for part in batches[2]]
    expected = evaluate(lambda: runner(flow(batches), inferencers()))
    assert len(expected) == 14
    for size in (2, 3):
        found = run_workers(size, lambda peers: evaluate(lambda: runner(flow(batches), inferencers()), peers))
        assert found == [expected] * size


@pytest.mark.parametrize("runner", [by_one, by_two])
def test_workers_without_a_batch_take_part(runner, rng):
    batches = uneven_batches(rng, 2)
    expected = evaluate(lambda: runner(flow(batches), inferencers()))
    assert run_workers(3, lambda peers: evaluate(lambda: runner(flow(batches), inferencers()), peers)) == [expected] * 3


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"infs": [ScalarStats("score"), ScalarStats("cost")]}, r"got \[ScalarStats of score:0; ScalarStats of cost:0"),
        ({"count": 5}, r"data of 5\] in worker 1, and .*; data of 7\] in worker 0: expected the same inferencers"),
    ],
    ids=["order", "length"],
)
def test_other_inferencers_or_data_in_a_worker_are_an_error(rng, others, words):
    def make(rank):
        own = {"infs": [ScalarStats("cost"), ScalarStats("score")], "count": 7, **(others if rank else {})}
        return InferenceRunner(flow(uneven_batches(rng, own["count"])), own["infs"])

    with pytest.raises(ClusterError, match=words):
        run_workers(2, lambda peers: evaluate(lambda: make(peers.rank), peers))


def points(rng, count):
    return [[np.float32(x), np.int32(x > 0.5)] for x in rng.normal(size=count).astype(np.float32)]


def test_shares_of_points_give_the_same_counts(rng):
    data = points(rng, 23)

    def make(sharded=True, remainder="keep"):
        source = DataFromList(data, shuffle=False)
        ds = ShardData(source, remainder=remainder) if sharded else source
        return InferenceRunner(
            BatchData(ds, 4, remainder=True), [ClassificationError(), BinaryClassificationStats("prediction", "label")]
        )

    expected = evaluate(lambda: make(sharded=False))
    assert run_workers(2, lambda peers: evaluate(make, peers)) == [expected] * 2
    with pytest.raises(
        ConfigError, match=r"remainder='wrap'.* 23 data points twice or not at all: expected remainder='keep'"
    ):
        run_workers(2, lambda peers: evaluate(lambda: make(remainder="wrap"), peers))


def test_a_share_of_another_worker_and_a_length_that_is_not_known_are_refused(rng):
    data = points(rng, 24)

    def make(ds):
        return InferenceRunner(FeedInput(BatchData(ds, 4)), ClassificationError())

    with pytest.raises(ConfigError, match="got rank=0 and size=4 in worker [01] of 2"):
        run_workers(2, lambda peers: evaluate(lambda: make(ShardData(DataFromList(data), 0, 4)), peers))
    expected = evaluate(lambda: make(DataFromList(data)))
    assert run_workers(2, lambda peers: evaluate(lambda: make(ShardData(DataFromList(data))), peers)) == [expected] * 2
    with pytest.raises(ConfigError, match="size"):
        evaluate(lambda: make(ShardData(DataFromGenerator(lambda: iter(data)), 0, 1)))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda batches: InferenceRunner(flow(batches), [ClassificationError(), Largest()]),
            "Largest does not say how to merge",
        ),
        (lambda batches: InferenceRunner(flow(batches), NotedSizes("score")), "NotedSizes does not say how to merge"),
        (
            lambda batches: DataParallelInferenceRunner(
                BatchQueueInput(flow([[np.float32(1), np.int32(0)]] * 8), 2), ClassificationError(), 2
            ),
            "BatchQueueInput cannot be split",
        ),
    ],
    ids=["of the user", "derived", "input"],
)
def test_what_cannot_be_merged_runs_in_the_chief_and_all_know_the_result(rng, make, reason):
    batches = uneven_batches(rng, 5)
    expected = evaluate(lambda: make(batches))
    with captured_log() as lines:
        found = run_workers(2, lambda peers: evaluate(lambda: make(batches), peers))
    assert found == [expected] * 2
    said = [line for line in lines if "runs in the chief alone" in line]
    assert len(said) == 1
    assert reason in said[0]


def test_who_merges_is_known():
    assert [inf.can_merge for inf in inferencers()] == [True] * 5
    assert not Largest().can_merge
    assert not NotedSizes("x").can_merge
    for method in ("_state", "_merge"):
        with pytest.raises(NotImplementedError, match=f"Largest must override {method}"):
            Largest().state() if method == "_state" else Largest().merge([])
