"""Positions of other libraries as bytes."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers.foreign import Tensor
from tpack.dataflow.adapters import freeze_state, thaw_state
from tpack.dataflow.state import StatelessError
from tpack.errors import InputError
from tpack.utils import serialize


@pytest.mark.parametrize(
    "state",
    [None, 3, "text", b"bytes", [1, [2]], (1, (2, [3])), {"a": {"b": (None, 1.5)}, 3: [], (1, 2): True}, {}],
    ids=repr,
)
def test_state_comes_back_as_it_was(state):
    assert thaw_state(None, freeze_state(None, state)) == state


def test_arrays_come_back():
    found = thaw_state(None, freeze_state(None, {"keys": np.arange(3, dtype="u4")}))["keys"]
    assert found.dtype == np.uint32
    assert found.tolist() == [0, 1, 2]


def test_tensor_comes_back_where_its_library_is_imported(monkeypatch):
    frozen = freeze_state(None, [Tensor([1, 2])])
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(from_numpy=lambda array: ("tensor of", array.tolist())))
    assert thaw_state(None, frozen) == [("tensor of", [1, 2])]
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(InputError, match="there is a tensor of PyTorch in it, which is not imported"):
        thaw_state(None, frozen)


def test_what_cannot_be_kept_is_named():
    with pytest.raises(StatelessError, match="the position of a str cannot be kept: .*builtins.object"):
        freeze_state("owner", {"a": object()})


@pytest.mark.parametrize("frozen", [None, {}, b"", b"nonsense", serialize.dumps(3), serialize.dumps(["list", 3])])
def test_something_else_is_refused(frozen):
    with pytest.raises(InputError, match="the bytes that should be the position of a str are none"):
        thaw_state("owner", frozen)
