"""Positions that objects of other libraries tell, as bytes and back, without pickling and without importing anything.

Such a position is made of dicts, lists, tuples, numbers, strings and now and then a tensor of PyTorch. Each comes back
as what it was.
"""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from tpack.dataflow.state import StatelessError
from tpack.errors import DataPointError, InputError
from tpack.utils import serialize

_DICT, _LIST, _TUPLE, _TENSOR, _PLAIN = "dict", "list", "tuple", "tensor", "plain"


def freeze_state(owner: Any, state: Any) -> bytes:
    """Turn a foreign position into bytes.

    Args:
        owner: whose position it is, for the message.
        state: the position.

    Raises:
        StatelessError: It holds something else than the above.
    """
    try:
        return serialize.dumps(_freeze(state))
    except DataPointError as error:
        raise StatelessError(f"the position of a {type(owner).__name__} cannot be kept: {error}") from error


def thaw_state(owner: Any, frozen: Any) -> Any:
    """Turn bytes from ``freeze_state`` back into a position.

    Raises:
        InputError: They are something else, or hold a tensor and PyTorch is not imported.
    """
    message = f"the bytes that should be the position of a {type(owner).__name__} are none"
    if not isinstance(frozen, bytes):
        raise InputError(f"{message}, but a {type(frozen).__name__}")
    try:
        return _thaw(serialize.loads(frozen))
    except (InputError, TypeError, ValueError) as error:
        raise InputError(f"{message}: {error}") from error


def _freeze(value: Any) -> list[Any]:
    """Return a pair of what a value is and what it holds."""
    if isinstance(value, Mapping):
        return [_DICT, [[_freeze(key), _freeze(held)] for key, held in value.items()]]
    if isinstance(value, (list, tuple)):
        return [_TUPLE if isinstance(value, tuple) else _LIST, [_freeze(held) for held in value]]
    if is_tensor(value):
        return [_TENSOR, value.detach().cpu().numpy()]
    return [_PLAIN, value]


def _thaw(pair: Any) -> Any:
    """Return the value that a pair stands for."""
    kind, held = pair
    if kind == _DICT:
        return {_thaw(key): _thaw(value) for key, value in held}
    if kind in (_LIST, _TUPLE):
        values = [_thaw(value) for value in held]
        return values if kind == _LIST else tuple(values)
    return _make_tensor(held) if kind == _TENSOR else held


def is_tensor(value: Any) -> bool:
    """Tell whether a value can do what a tensor of PyTorch can."""
    return hasattr(value, "detach") and hasattr(value, "numpy")


def _make_tensor(array: np.ndarray) -> Any:
    """Return an array as a tensor; what gets it has imported the library already."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise InputError("there is a tensor of PyTorch in it, which is not imported")
    return torch.from_numpy(array)
