"""What holds for every packer, with a group that is packed and one that is left as it is."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import dense_towers, random_towers, run, slices, source
from tpack.errors import ReductionError
from tpack.reduction.base import Column
from tpack.reduction.wrappers.packers import TensorPacker


class _EvenPacker(TensorPacker):
    """Join the gradients with even numbers."""

    def _group(self, columns: Sequence[Column]) -> list[list[int]]:
        return [[n] for n in range(1, len(columns), 2)] + ([list(range(0, len(columns), 2))] if columns else [])


def _pairs(towers: Sequence[Sequence[Any]]) -> list[list[tuple[Any, Any]]]:
    return [[(grad, f"v{n} of {k}") for n, grad in enumerate(tower)] for k, tower in enumerate(towers)]


def test_pairs_come_out_as_they_went_in(rng: Any, session8: Any) -> None:
    values = random_towers(rng, 2, [(2, 3), (4,), ()])
    towers = dense_towers(values)
    packer = _EvenPacker()
    packs = packer.pack(_pairs(towers))
    assert packs[1][0] == (towers[1][1], "v1 of 1")
    assert packs[1][1][1] is None
    assert [[pack.shape.as_list() for pack, _ in tower] for tower in packs] == [[[4], [7]]] * 2
    assert [pack.device for pack, _ in packs[1]] == ["/device:CPU:1"] * 2
    unpacked = packer.unpack(packs)
    assert [[variable for _, variable in tower] for tower in unpacked] == [
        [f"v{n} of {k}" for n in range(3)] for k in range(2)
    ]
    grads = [[grad for grad, _ in tower] for tower in unpacked]
    for got, wanted in zip(run(session8, grads), values, strict=True):
        assert all(np.array_equal(*pair) for pair in zip(got, wanted, strict=True))


def test_each_gradient_returns_to_its_own_device(graph: Any) -> None:
    tower = [source(1.0, f"/device:CPU:{n}") for n in (3, 2, 5)]
    packer = _EvenPacker()
    packs = packer.pack(_pairs([tower]))
    assert [pack.device for pack, _ in packs[0]] == ["/device:CPU:2", "/device:CPU:3"]
    assert [grad.device for grad, _ in packer.unpack(packs)[0]] == [grad.device for grad in tower]


def test_a_packer_remembers_what_it_packed_last(graph: Any) -> None:
    packer = _EvenPacker()
    packer.pack(_pairs([[tf.ones([2]), tf.ones([3]), tf.ones([4])]]))
    packs = packer.pack(_pairs([[tf.ones([5]), tf.ones([6])]]))
    assert [grad.shape.as_list() for grad, _ in packer.unpack(packs)[0]] == [[5], [6]]


def test_towers_without_gradients_have_no_packs(graph: Any) -> None:
    packer = _EvenPacker()
    assert packer.pack([[], []]) == [[], []]
    assert packer.unpack([[], []]) == [[], []]


def test_what_cannot_be_packed_is_refused(graph: Any) -> None:
    packer = _EvenPacker()
    with pytest.raises(ReductionError, match=r"gradient 1 \(.*\) is IndexedSlices: wanted dense tensors to pack"):
        packer.pack(_pairs([[tf.ones([]), slices([[1.0]], [0], "")]]))
    with pytest.raises(ReductionError, match="tower 1 has 0 gradients and tower 0 has 1"):
        packer.pack(_pairs([[tf.ones([])], []]))
    with pytest.raises(ReductionError, match="at least one tower, got none"):
        packer.pack([])


def test_packs_of_another_number_are_refused(graph: Any) -> None:
    packer = _EvenPacker()
    with pytest.raises(ReductionError, match=r"packs that pack\(\) made, \[\] in each tower, got \[\]"):
        packer.unpack([])
    packs = packer.pack(_pairs([[tf.ones([])] * 3] * 2))
    with pytest.raises(ReductionError, match=r"\[2, 2\] in each tower, got \[2, 1\]"):
        packer.unpack([packs[0], packs[1][:1]])
    with pytest.raises(ReductionError, match=r"\[2, 2\] in each tower, got \[2\]"):
        packer.unpack(packs[:1])
