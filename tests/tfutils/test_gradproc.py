"""The contract of gradient processors."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.tfutils import gradproc
from tpack.tfutils.gradproc import GradientProcessor

PROCESSORS = {
    "GradientProcessor": lambda: gradproc.GradientProcessor(),
    "FilterNoneGrad": lambda: gradproc.FilterNoneGrad(),
    "AdaptiveClip": lambda: gradproc.AdaptiveClip(1e9),
    "GlobalNormClip": lambda: gradproc.GlobalNormClip(1e9),
    "MapGradient": lambda: gradproc.MapGradient(lambda grad: grad),
    "ScaleGradient": lambda: gradproc.ScaleGradient((".*", 1.0)),
    "SummaryGradient": lambda: gradproc.SummaryGradient(),
    "PrintGradient": lambda: gradproc.PrintGradient(),
    "CheckGradient": lambda: gradproc.CheckGradient(),
}


def test_contract_covers_all_processors() -> None:
    assert set(PROCESSORS) == set(gradproc.__all__)


@pytest.mark.parametrize("name", PROCESSORS)
def test_processor_that_has_nothing_to_change_keeps_dense_and_sparse_values(session8: Any, name: str) -> None:
    variables = [tf.get_variable(name, [3, 2], use_resource=True) for name in ("a", "b")]
    dense = tf.constant(np.arange(6.0).reshape(3, 2), tf.float32)
    sparse = tf.IndexedSlices(tf.constant([[1.0, 2], [3, 4]]), tf.constant([2, 2]), tf.constant([3, 2]))
    session8.run(tf.global_variables_initializer())
    pairs = tuple(zip([dense, sparse], variables, strict=True))
    (new_dense, a), (new_sparse, b) = PROCESSORS[name]().process(pairs)
    assert a is variables[0]
    assert b is variables[1]
    assert isinstance(new_sparse, tf.IndexedSlices)
    for new, old in ((new_dense, dense), (new_sparse, sparse)):
        for got, wanted in zip(*session8.run([tf.nest.flatten(new, True), tf.nest.flatten(old, True)]), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert new_sparse.indices is sparse.indices


@pytest.mark.parametrize("name", PROCESSORS)
def test_processor_of_no_gradients_gives_none(graph: Any, name: str) -> None:
    assert PROCESSORS[name]().process([]) == []


def test_subclass_works_in_a_name_scope_of_its_name(graph: Any) -> None:
    class Double(GradientProcessor):
        def _process(self, grads: Any) -> Any:
            return ((gradient * 2, variable) for gradient, variable in grads)

    ((gradient, variable),) = Double().process([(tf.constant(1.0), "v")])
    assert gradient.op.name.startswith("Double/")
    assert variable == "v"
