"""A reader of pickles that hold numbers, text, lists, dicts and arrays, and that can make nothing else.

A pickle is a program, and loading one from elsewhere runs whatever its author wanted. This reader knows the three names
by which an array is written, and each of them stands for a class of this file, which only keeps what it is given: no
code of numpy, or of anybody else, is called before all is checked.
"""

import math
import pickle
from typing import Any

import numpy as np

from tpack.errors import InputError

_MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
_DTYPES = frozenset((b"u1", "u1"))
_MAX_ERROR_CHARS = 200


class _DtypeShell:
    """What stands for a dtype while it is read."""

    def __init__(self, name: Any = None, *flags: Any) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        """Ignore byte order and alignment, which single bytes do not have."""


class _ArrayShell:
    """What stands for an array while it is read; also for its class, which is given as an argument."""

    def __init__(self, *args: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        """Keep the version, shape, dtype, memory order and bytes."""
        self.state = state


_CLASSES = {"ndarray": _ArrayShell, "dtype": _DtypeShell, "_reconstruct": _ArrayShell}


class _ArrayUnpickler(pickle.Unpickler):
    """Finds nothing but the three names."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return what stands for a name.

        Raises:
            UnpicklingError: It is none of the three.
        """
        if module_name in _MODULES and global_name in _CLASSES:
            return _CLASSES[global_name]
        raise pickle.UnpicklingError(f"it wants {module_name}.{global_name}, and only arrays are allowed")


def load_arrays(path: str) -> dict[str, Any]:
    """Return the dict in a pickle, with text as str and arrays of unsigned bytes as arrays.

    Args:
        path: the file, written by Python 2, or by Python 3 with protocol 3 or 4.

    Raises:
        InputError: The file holds something else, or is damaged.
    """
    try:
        with open(path, "rb") as file:
            found = _ArrayUnpickler(file, encoding="bytes").load()
    except Exception as error:
        # Damaged pickles raise almost anything.
        text = f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARS]
        raise InputError(f"{path} is no pickle of arrays that can be read: {text}") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} holds a {type(found).__name__}: wanted a dict")
    return {_as_text(key): _as_array(path, key, value) for key, value in found.items()}


def _as_text(key: Any) -> str:
    """Return a key or a name as text; Python 2 wrote bytes."""
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)


def _as_array(path: str, key: Any, value: Any) -> Any:
    """Return the array that a shell stands for, text in lists as str, and other values as they are."""
    if isinstance(value, list):
        return [_as_text(member) if isinstance(member, bytes) else member for member in value]
    if not isinstance(value, _ArrayShell):
        return value
    try:
        _, shape, dtype, is_fortran, content = value.state
        if dtype.name not in _DTYPES or not isinstance(content, bytes) or math.prod(shape) != len(content):
            raise ValueError(f"shape {shape}, dtype {dtype.name!r}")
        return np.frombuffer(content, np.uint8).reshape(shape, order="F" if is_fortran else "C")
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} holds no array of unsigned bytes in {_as_text(key)!r}: {error}") from error
