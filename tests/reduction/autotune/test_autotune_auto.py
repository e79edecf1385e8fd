import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.measuring_workers import answering, python
from tests.helpers.tower_grads import cpu_devices, dense_towers, random_towers, run, slices, source
from tpack.reduction.autotune.autotune import AutoReducer, ChoiceCache
from tpack.reduction.autotune.measure import MeasuringOptions
from tpack.reduction.base import ReduceOp

MEASURED = answering({"xring": 0.1, "one_device": 0.2})
SHAPES = [(5, 3), (), (70,)]


@pytest.fixture
def make_auto(tmp_path):
    def make(worker=MEASURED):
        options = MeasuringOptions(("one_device", "xring"), worker=worker)
        return AutoReducer(options=options, cache=ChoiceCache(str(tmp_path)))

    return make


@pytest.mark.parametrize("op", ReduceOp)
def test_gradients_are_reduced_by_the_fastest(make_auto, op, rng, graph, session8):
    values = random_towers(rng, 3, SHAPES)
    with captured_log() as lines:
        reduced = make_auto().reduce(dense_towers(values), op)
    assert any("xring" in operation.name for operation in graph.get_operations())
    assert "Gradients of 3 towers are reduced by xring: xring is the fastest of 2" in lines[-2]
    assert "one_device" in lines[-1].splitlines()[-1]
    for k, tower in enumerate(run(session8, reduced)):
        for n, got in enumerate(tower):
            wanted = sum(own[n] for own in values) / op.divisor(3)
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
            assert reduced[k][n].device == f"/device:CPU:{k}"


def test_the_choice_is_made_for_each_list_of_gradients(make_auto, rng, graph):
    auto = make_auto()
    for shapes, is_known in ((SHAPES, False), (SHAPES[:1], False), (SHAPES, True)):
        with captured_log() as lines:
            auto.reduce(dense_towers(random_towers(rng, 2, shapes)))
        assert ("an earlier measurement" in lines[-2]) == is_known


def test_sparse_gradients_stay_sparse_and_alone_need_no_choice(make_auto, session8):
    grads = [[slices([[1.0 + k]], [k], device)] for k, device in enumerate(cpu_devices(2))]
    with captured_log() as lines:
        reduced = make_auto(python("raise SystemExit")).reduce(grads, ReduceOp.SUM)
    assert lines == []
    assert run(session8, reduced[1][0]).values.tolist() == [[1.0], [2.0]]


def test_unknown_shapes_are_reduced_by_what_suits_the_devices(make_auto, session8):
    grads = [[source([1.0, 2.0], device, static_shape=[None])] for device in cpu_devices(2)]
    with captured_log() as lines:
        reduced = make_auto().reduce(grads, ReduceOp.SUM)
    assert len(lines) == 1
    assert "reduced by round_robin: nothing was measured, since gradient 0 has shape (None,)" in lines[0]
    np.testing.assert_array_equal(run(session8, reduced[1][0]), [2.0, 4.0])


def test_towers_on_one_device_are_reduced_all_the_same(make_auto, session8):
    with tf.device("/device:CPU:0"):
        grads = [[source([1.0], "/device:CPU:0")] for _ in range(2)]
    reduced = make_auto().reduce(grads, ReduceOp.SUM)
    np.testing.assert_array_equal(run(session8, reduced[1][0]), [2.0])
