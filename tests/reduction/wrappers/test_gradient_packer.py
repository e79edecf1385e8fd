import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import cpu_devices, dense_towers, random_towers, run
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.wrappers import gradient_packer
from tpack.reduction.wrappers.gradient_packer import GradientPacker

SHAPES = [(40, 60), (), (7,), (0, 3), (3, 1000)]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the packer logs."""
    messages: list[str] = []
    monkeypatch.setattr(gradient_packer.logger, "info", messages.append)
    yield messages


@pytest.mark.parametrize(("num_split", "sizes"), [(1, [5408]), (3, [1803, 1803, 1802]), (5, [1082] * 3 + [1081] * 2)])
def test_gradients_come_out_as_they_went_in(
    num_split: int, sizes: list[int], rng: Any, session8: Any, lines: Any
) -> None:
    values = random_towers(rng, 2, SHAPES)
    grads = dense_towers(values)
    packer = GradientPacker(num_split)
    assert packer.compute_strategy(grads[0])
    assert lines == [f"5 gradients with 5408 elements are reduced in {num_split} pack(s)."]
    packs = packer.pack_all(grads, cpu_devices(2))
    assert [[pack.shape.as_list() for pack in tower] for tower in packs] == [[[size] for size in sizes]] * 2
    unpacked = packer.unpack_all(packs, cpu_devices(2))
    assert [grad.device for grad in unpacked[1]] == ["/device:CPU:1"] * 5
    assert [grad.shape.as_list() for grad in unpacked[0]] == [list(shape) for shape in SHAPES]
    for got, wanted in zip(run(session8, unpacked), values, strict=True):
        assert all(np.array_equal(*pair) for pair in zip(got, wanted, strict=True))


def test_pack_and_unpack_work_on_the_current_device(graph: Any, lines: Any) -> None:
    packer = GradientPacker()
    grads = [tf.ones([8 * 1024]), tf.ones([3])]
    assert packer.compute_strategy(grads)
    with tf.device("/device:CPU:2"):
        packs = packer.pack(grads)
        assert {grad.device for grad in packs + packer.unpack(packs)} == {"/device:CPU:2"}
    assert len(packs) == 8


@pytest.mark.parametrize(
    ("shapes_and_dtypes", "reason"),
    [
        ([([9000], tf.float32), ([None, 3], tf.float32)], r"the shape \(None, 3\) of grad1:0 is not fully defined"),
        ([([8 * 1024 - 1], tf.float32)], r"8191 elements are too few for 8 pack\(s\) of 1024 and more"),
        ([], "0 elements are too few"),
        ([([9000], tf.float32), ([9000], tf.float16)], "different dtypes: float16, float32"),
    ],
)
def test_what_cannot_be_packed_is_logged_once(shapes_and_dtypes: Any, reason: str, graph: Any, lines: Any) -> None:
    grads = [tf.placeholder(dtype, shape, name=f"grad{n}") for n, (shape, dtype) in enumerate(shapes_and_dtypes)]
    packer = GradientPacker()
    assert not packer.compute_strategy(grads)
    assert len(lines) == 1
    assert re.search(f"Gradients are reduced without packing: .*{reason}", lines[0])
    with pytest.raises(ReductionError, match="no strategy; call compute_strategy, which must return True"):
        packer.pack(grads)


def test_misuse_is_refused(graph: Any, lines: Any) -> None:
    with pytest.raises(ConfigError, match="^GradientPacker got num_split="):
        GradientPacker(0)
    packer = GradientPacker(2)
    with pytest.raises(ReductionError, match="no strategy"):
        packer.unpack([])
    grads = [tf.ones([4000]), tf.ones([5])]
    assert packer.compute_strategy(grads)
    with pytest.raises(ReductionError, match="has a strategy already"):
        packer.compute_strategy(grads)
    with pytest.raises(ReductionError, match="got 1 gradients: expected 2"):
        packer.pack(grads[:1])
    with pytest.raises(ReductionError, match=r"got other:0 of shape \(6,\): expected \(5,\)"):
        packer.pack([grads[0], tf.placeholder(tf.float32, [6], name="other")])
    with pytest.raises(ReductionError, match="got 3 packs: expected 2"):
        packer.unpack([tf.ones([2])] * 3)
    with pytest.raises(ReductionError, match="got 2 devices for 1 towers"):
        packer.pack_all([grads], cpu_devices(2))
