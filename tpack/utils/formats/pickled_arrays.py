"""Pickles of arrays, numbers and text, read without running any code of theirs.

Loading a pickle calls what its author names. Here only the names of arrays and bytes are known, each replaced by a
class or function of this file that keeps its arguments; arrays are made of these when all is read and checked.
"""

import importlib
import io
import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np

_DTYPE_NAME = re.compile(r"[biufcSU][1-9][0-9]{0,9}")
_BYTE_ORDERS = ("<", ">", "|", "=")


def loads(content: bytes, *, encoding: str = "ASCII") -> Any:
    """Return the object in a pickle of Python 2 or 3.

    Args:
        content: the pickle.
        encoding: that of text of Python 2; ``"bytes"`` leaves it as it is.

    Raises:
        pickle.UnpicklingError: It has other objects than arrays, numbers, text, bytes, None, lists, tuples, dicts and
            sets; a damaged one raises almost anything.
    """
    _check_places(content)
    return _with_arrays(_ArrayUnpickler(io.BytesIO(content), encoding=encoding).load())


def is_pickle(content: bytes | memoryview) -> bool:
    """Tell whether bytes look like a pickle of protocol 2 or later."""
    return len(content) > 2 and content[0] == 0x80 and 2 <= content[1] <= pickle.HIGHEST_PROTOCOL


def _check_places(content: bytes) -> None:
    """Refuse a pickle with a memo index beyond its size, for which Python would allocate gigabytes."""
    for code, argument, _ in importlib.import_module("pickletools").genops(content):
        if code.name in ("PUT", "LONG_BINPUT") and not 0 <= (argument or 0) <= len(content):
            raise pickle.UnpicklingError(f"it has an object at memo index {argument}")


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickler that knows only the few names."""

    def find_class(self, module_name: str, global_name: str) -> Callable[..., Any]:
        """Return the replacement of a name; raise an UnpicklingError for another one."""
        found = _NAMES.get((module_name.replace("numpy._core", "numpy.core"), global_name))
        if found is None:
            raise pickle.UnpicklingError(f"it uses {module_name}.{global_name}, and only arrays are allowed")
        return found


class _ArrayShell:
    """Placeholder of an array or scalar during reading; also of its class, which is an argument."""

    is_scalar = False

    def __init__(self, *args: object) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        """Keep the version, shape, dtype, memory order and bytes."""
        self.state = state

    def value(self) -> np.ndarray | np.generic:
        """Return the array or scalar; raise an UnpicklingError if it is damaged or not of numbers or text."""
        try:
            _, shape, dtype, is_fortran, content = self.state
            made = dtype.make()
            if not isinstance(content, bytes) or made.itemsize * math.prod(shape) != len(content):
                raise ValueError(f"shape {shape}, dtype {made}")
            array = np.frombuffer(content, made).reshape(shape, order="F" if is_fortran else "C")
        except (TypeError, ValueError, AttributeError) as error:
            raise pickle.UnpicklingError(f"it has no array of numbers or text: {error}") from error
        return array[()] if self.is_scalar else array.copy("K")


class _DtypeShell:
    """Placeholder of a dtype during reading."""

    def __init__(self, name: object = None, *flags: object) -> None:
        self.name = name
        self.byte_order: object = "|"

    def __setstate__(self, state: Any) -> None:
        """Keep the byte order."""
        self.byte_order = state[1]

    def make(self) -> np.dtype:
        """Return the dtype of numbers or text; raise a ValueError for another one."""
        name, order = (each.decode() if isinstance(each, bytes) else each for each in (self.name, self.byte_order))
        if not isinstance(name, str) or not _DTYPE_NAME.fullmatch(name) or order not in _BYTE_ORDERS:
            raise ValueError(f"dtype {name!r:.40}, byte order {order!r:.40}")
        return np.dtype(f"{order}{name}")


def _array_of_buffer(content: object, dtype: object, shape: object, order: object) -> _ArrayShell:
    """Return the placeholder of an array of protocol 5."""
    shell = _ArrayShell()
    shell.state = (1, shape, dtype, order == "F", bytes(content) if isinstance(content, bytearray) else content)
    return shell


def _scalar(dtype: object, content: object = b"") -> _ArrayShell:
    """Return the placeholder of a scalar."""
    shell = _ArrayShell()
    shell.state, shell.is_scalar = (1, (), dtype, False, content), True
    return shell


def _encode(text: object, encoding: object) -> bytes:
    """Return bytes, which Python 3 writes as text in protocols 0, 1 and 2."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("it encodes another object than bytes, and only arrays are allowed")
    return text.encode("latin-1")


_NAMES: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _ArrayShell,
    ("numpy", "dtype"): _DtypeShell,
    ("numpy.core.multiarray", "_reconstruct"): _ArrayShell,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _array_of_buffer,
    ("_codecs", "encode"): _encode,
    # Those protocols call the class for empty bytes.
    ("__builtin__", "bytes"): lambda: b"",
    **{(module, kind.__name__): kind for module in ("__builtin__", "builtins") for kind in (complex, set, frozenset)},
}


def _with_arrays(value: Any) -> Any:
    """Return a value with arrays in place of their placeholders."""
    if isinstance(value, _ArrayShell):
        return value.value()
    if isinstance(value, list | tuple):
        return type(value)(map(_with_arrays, value))
    if isinstance(value, dict):
        return {key: _with_arrays(each) for key, each in value.items()}
    if isinstance(value, _DtypeShell):
        raise pickle.UnpicklingError("it has a dtype without an array")
    return value
