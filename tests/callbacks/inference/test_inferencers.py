import math

import numpy as np
import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.inference.inferencers import (
    BinaryClassificationStats,
    ClassificationError,
    Inferencer,
    ScalarStats,
)
from tpack.errors import CallbackError


class Fixed(Inferencer):
    def __init__(self, statistics):
        self.statistics, self.calls = statistics, []

    def _before_inference(self):
        self.calls.append("before")

    def _get_fetches(self):
        return ["cost", "scope/wrong:1"]

    def _on_fetches(self, results):
        self.calls.append(results)

    def _after_inference(self):
        return self.statistics


def after_inference(graph, statistics):
    inferencer, trainer = Fixed(statistics), FakeTrainer()
    trainer.setup([inferencer])
    trainer.sess.close()
    inferencer.before_inference()
    inferencer.on_fetches([1, 2])
    inferencer.after_inference()
    assert inferencer.calls == ["before", [1, 2]]
    return trainer


def test_statistics_go_to_the_monitors(graph):
    trainer = after_inference(graph, {"a": 1.0, "b": 2})
    assert [(name, val) for name, val, _, _ in trainer.recorder.scalars] == [("a", 1.0), ("b", 2)]


def test_a_statistic_of_two_inferencers_is_warned_of(graph):
    trainer, inferencers = FakeTrainer(), [Fixed({"shared_by_two": 1.0}), Fixed({"shared_by_two": 2.0, "own": 1.0})]
    trainer.setup(inferencers)
    trainer.sess.close()
    with captured_log() as lines:
        for _ in range(2):
            for inferencer in inferencers:
                inferencer.after_inference()
    assert [line for line in lines if "several" in line.lower()] == [
        "Several inferencers report 'shared_by_two', each in place of the one before: give one a prefix"
    ]


def test_no_statistics_are_allowed(graph):
    assert after_inference(graph, None).recorder.scalars == []


def test_fetches_have_their_output_index():
    assert Fixed(None).get_fetches() == ["cost:0", "scope/wrong:1"]


def test_something_else_than_a_dict_is_an_error(graph):
    with pytest.raises(CallbackError, match="returned 3: expected a dict of numbers or None"):
        after_inference(graph, 3)


def test_methods_must_be_overridden():
    with pytest.raises(NotImplementedError, match="Inferencer must override _get_fetches"):
        Inferencer().get_fetches()
    with pytest.raises(NotImplementedError, match="Inferencer must override _on_fetches"):
        Inferencer().on_fetches([])
    assert Inferencer()._after_inference() is None


def evaluate(stats, batches):
    stats._before_inference()
    for batch in batches:
        stats.on_fetches(batch)
    return stats._after_inference()


def test_precision_and_recall_are_those_of_the_whole_set(rng):
    predictions, labels = rng.integers(0, 2, (2, 23))
    batches = [(predictions[start : start + 5], labels[start : start + 5]) for start in range(0, 23, 5)]
    right = (predictions & labels).sum()
    assert evaluate(BinaryClassificationStats("pred", "label"), batches) == {
        "val_precision": right / predictions.sum(),
        "val_recall": right / labels.sum(),
    }


def test_each_pass_counts_anew():
    stats = BinaryClassificationStats("pred:0", "label", prefix="test")
    assert stats.get_fetches() == ["pred:0", "label:0"]
    evaluate(stats, [([1, 1], [0, 0])])
    assert evaluate(stats, [([1], [1])]) == {"test_precision": 1.0, "test_recall": 1.0}


def error_rate(batches):
    return evaluate(ClassificationError("wrong", "err"), [[batch] for batch in batches])


def test_error_rate_is_exact_for_uneven_batches(rng):
    wrong = rng.integers(0, 2, 23)
    batches = [wrong[start : start + 5] for start in range(0, 23, 5)]
    assert error_rate(batches) == {"err": wrong.sum() / 23}


@pytest.mark.parametrize("dtype", [bool, np.float32, np.int64])
def test_every_kind_of_zero_and_one_counts(dtype):
    assert error_rate([np.array([1, 0, 1, 1], dtype=dtype)]) == {"err": 0.75}


def test_names_are_the_usual_ones():
    error = ClassificationError()
    assert error.get_fetches() == ["incorrect_vector:0"]
    assert list(error._after_inference()) == ["validation_error"]


def test_rate_of_nothing_is_nan():
    assert math.isnan(error_rate([])["err"])


def test_tensor_that_is_no_vector_is_an_error():
    with pytest.raises(CallbackError, match=r"got 'wrong' of shape \(\): expected a vector"):
        error_rate([np.float32(1)])


@pytest.mark.parametrize(
    ("names", "prefix", "expected"),
    [
        ("cost", "validation", ["validation_cost"]),
        (["cost:0", "scope/top5"], "val", ["val_cost", "val_scope/top5"]),
        (["split:1"], "", ["split:1"]),
    ],
)
def test_statistics_are_named_after_tensors(names, prefix, expected):
    stats = ScalarStats(names, prefix)
    assert list(evaluate(stats, [[1.0] * len(expected)])) == expected


def test_scalars_count_once_a_batch():
    assert evaluate(ScalarStats("x"), [[1.0], [2.0], [6.0]]) == {"validation_x": 3.0}


def test_elements_of_uneven_batches_weigh_alike(rng):
    values = rng.normal(size=23)
    batches = [[values[start : start + 5]] for start in range(0, 23, 5)]
    assert evaluate(ScalarStats("x"), batches)["validation_x"] == pytest.approx(values.mean(), rel=1e-15)


def test_order_of_batches_does_not_matter(rng):
    batches = [[value] for value in rng.normal(size=100).astype(np.float32) * 10.0 ** rng.integers(-8, 8, 100)]
    assert evaluate(ScalarStats("x"), batches) == evaluate(ScalarStats("x"), batches[::-1])


def test_each_pass_adds_up_anew():
    stats = ScalarStats("x")
    evaluate(stats, [[100.0]])
    assert evaluate(stats, [[1.0]]) == {"validation_x": 1.0}


def test_what_is_not_finite_shows():
    assert evaluate(ScalarStats("x"), [[math.inf], [1.0]]) == {"validation_x": math.inf}
    assert math.isnan(evaluate(ScalarStats("x"), [[math.inf], [-math.inf]])["validation_x"])
    assert math.isnan(evaluate(ScalarStats("x"), [])["validation_x"])
