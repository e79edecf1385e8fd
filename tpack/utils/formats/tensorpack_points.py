"""Data points in tensorpack's LMDB and TFRecord files, and results of its serializer, read without running any code.

They are pickles, or msgpack with an array as a map with the entries nd, type, kind, shape and data, as the package
msgpack-numpy makes it. Arrays of Python objects are refused: loading one runs arbitrary code.
"""

import math
import re
from typing import TYPE_CHECKING, Any, NoReturn

import msgpack
import numpy as np

from tpack.errors import InputError
from tpack.utils import serialize
from tpack.utils.formats import pickled_arrays

if TYPE_CHECKING:
    from typing_extensions import Buffer

_DTYPE_NAME = re.compile(r"[<>|=]?[?A-Za-z][0-9]{0,9}(\[[0-9]{0,9}[A-Za-z\u03bc]{1,2}\])?")


def loads(buf: "Buffer") -> Any:
    """Turn bytes of tensorpack's serializer into an object, with lists in place of msgpack's tuples.

    Raises:
        InputError: They are damaged, in pyarrow, or have other objects than arrays, numbers and text.
    """
    content = memoryview(buf)
    try:
        if pickled_arrays.is_pickle(content):
            return pickled_arrays.loads(content.tobytes())
        serialize.check_sizes(buf)
        return msgpack.unpackb(buf, object_hook=decode, ext_hook=_refuse, raw=False, strict_map_key=False, timestamp=1)
    except InputError:
        raise
    except Exception as error:
        # Damaged pickles raise almost anything.
        raise InputError(
            f"{content.nbytes} bytes are damaged, or neither msgpack nor a pickle of arrays, numbers and text (early "
            f"versions of tensorpack wrote pyarrow): {type(error).__name__}: {error}"
        ) from error


def _refuse(code: int, data: bytes) -> NoReturn:
    raise ValueError(f"it has the extension type {code}, which tensorpack does not use")


def decode(entries: dict[Any, Any]) -> np.ndarray | np.generic | complex | dict[Any, Any]:
    """Turn a map that stands for an array, a scalar or a complex number into it; leave others alone."""
    # Before msgpack had a type for bytes, the names were strings.
    named = {key.decode("ascii", "replace") if isinstance(key, bytes) else key: value for key, value in entries.items()}
    if named.keys() >= {"nd", "type", "data"}:
        return _make_array(named)
    if named.get("complex") is True:
        return complex(named["data"])
    return entries


def _make_array(entries: dict[str, Any]) -> np.ndarray | np.generic:
    kind = entries.get("kind") or b""
    if kind in (b"O", "O") or entries["type"] in ("O", "|O", b"O", b"|O"):
        raise InputError(
            "it has a pickled array of Python objects, and loading a pickle runs code: expected arrays of numbers or "
            "strings; write the data again without objects"
        )
    dtype = _make_dtype(entries["type"])
    shape = tuple(entries["shape"]) if entries["nd"] else ()
    if len(entries["data"]) != dtype.itemsize * math.prod(shape):
        raise ValueError(f"an array of shape {shape} and dtype {dtype} has {len(entries['data'])} bytes")
    array: np.ndarray = np.ndarray(shape, dtype, entries["data"]).copy()
    return array if entries["nd"] else array[()]


def _make_dtype(description: object) -> np.dtype:
    """Return a dtype without Python objects."""
    if isinstance(description, list):
        dtype = np.dtype([_make_field(field) for field in description])
    else:
        dtype = np.dtype(_make_name(description))
    if dtype.hasobject:
        raise InputError(f"an array of dtype {dtype} has pickled Python objects: expected numbers or strings")
    return dtype


def _make_field(field: list[Any]) -> tuple[Any, ...]:
    """Return a field of a record in numpy's form, in tuples."""
    name, kind, *shape = field
    name = name.decode("utf-8") if isinstance(name, bytes) else name
    kind = [_make_field(inner) for inner in kind] if isinstance(kind, list) else _make_name(kind)
    return (name, kind, *map(tuple, shape))


def _make_name(description: object) -> str:
    """Return the name of a plain dtype; numpy would parse much else."""
    name = description.decode("ascii") if isinstance(description, bytes) else description
    if not isinstance(name, str) or not _DTYPE_NAME.fullmatch(name):
        raise ValueError(f"{name!r:.40} is not a dtype")
    return name
