import math

import numpy as np
import pytest

from tpack.callbacks.inference.inferencers import ScalarStats


def evaluate(stats, batches):
    stats._before_inference()
    for batch in batches:
        stats.on_fetches(batch)
    return stats._after_inference()


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


def test_each_pass_begins_anew():
    stats = ScalarStats("x")
    evaluate(stats, [[100.0]])
    assert evaluate(stats, [[1.0]]) == {"validation_x": 1.0}


def test_what_is_not_finite_shows():
    assert evaluate(ScalarStats("x"), [[math.inf], [1.0]]) == {"validation_x": math.inf}
    assert math.isnan(evaluate(ScalarStats("x"), [[math.inf], [-math.inf]])["validation_x"])
    assert math.isnan(evaluate(ScalarStats("x"), [])["validation_x"])
