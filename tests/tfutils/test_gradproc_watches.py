"""Gradient processors that only look: what they write, print and find."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.summaries import read_summaries
from tpack.errors import ConfigError
from tpack.tfutils.gradproc import CheckGradient, PrintGradient, SummaryGradient
from tpack.tfutils.summary import MOVING_SUMMARY_OPS_KEY
from tpack.tower.context import TrainTowerContext


def make_grads(values: Any = (3.0, 4.0)) -> list[tuple[Any, Any]]:
    """Return a dense and a sparse gradient of the same values."""
    variables = [tf.get_variable(name, [len(values)], use_resource=True) for name in ("dense", "sparse")]
    gradient = tf.constant(np.asarray(values, "float32"))
    slices = tf.IndexedSlices(gradient, tf.range(len(values)), tf.constant([len(values)]))
    return list(zip([gradient, slices], variables, strict=True))


def test_summary_writes_histogram_and_moving_rms(session8: Any) -> None:
    with TrainTowerContext("tower0", "main", has_own_variables=True):
        SummaryGradient().process(make_grads())
    session8.run(tf.local_variables_initializer())
    session8.run(tf.get_collection(MOVING_SUMMARY_OPS_KEY))
    written = read_summaries(session8)
    for name in ("dense", "sparse"):
        assert written.pop(f"SummaryGradient/{name}-grad").sum == 7
        assert written.pop(f"SummaryGradient/{name}-grad-rms") == pytest.approx(np.sqrt(12.5))
    assert not written


def test_summary_is_of_variables_that_match(session8: Any) -> None:
    dense, (_, sparse) = make_grads()
    SummaryGradient("dens.", collections=["mine"]).process([dense, (None, sparse)])
    assert set(read_summaries(session8, "mine")) == {"SummaryGradient/dense-grad"}


def test_summary_in_another_tower_is_nothing(graph: Any) -> None:
    with TrainTowerContext("tower1", index=1, total=2):
        grads = make_grads()
        before = graph.get_operations()
        assert SummaryGradient().process(grads) == grads
        assert graph.get_operations() == before


def test_summary_rejects_invalid_regular_expressions() -> None:
    with pytest.raises(ConfigError, match="expected a regular expression"):
        SummaryGradient("(")


def test_print_shows_values_when_the_gradient_is_used(session8: Any, capfd: pytest.CaptureFixture[str]) -> None:
    (dense, _), (sparse, _) = PrintGradient().process(make_grads())
    session8.run(dense)
    assert capfd.readouterr().err == "gradient of dense: [3 4]\n"
    session8.run(sparse.values)
    assert capfd.readouterr().err == "gradient of sparse: [3 4]\n"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("which", [0, 1])
def test_check_fails_the_step_and_names_the_variable(session8: Any, bad: float, which: int) -> None:
    gradient, variable = CheckGradient().process(make_grads([1.0, bad]))[which]
    message = f"CheckGradient: the gradient of {variable.op.name}"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session8.run(tf.convert_to_tensor(gradient))
