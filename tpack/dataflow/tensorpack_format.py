"""Data points as tensorpack wrote them into LMDB and TFRecord files, read without running any code.

They are msgpack, in which an array is a map with the entries nd, type, kind, shape and data, as the package
msgpack-numpy makes it. Arrays of Python objects are pickles there and are refused: loading one runs whatever it says.
"""

import math
from typing import Any

import msgpack
import numpy as np

from tpack.errors import InputError


def loads(buf: Any) -> Any:
    """Turn bytes that tensorpack's serializer made into an object.

    Args:
        buf: bytes, or anything with their buffer interface.

    Returns:
        The object; a tuple has become a list.

    Raises:
        InputError: The bytes are damaged or of another format, or hold an array of Python objects.
    """
    try:
        return msgpack.unpackb(buf, object_hook=_decode, raw=False, strict_map_key=False)
    except InputError:
        raise
    except (ValueError, TypeError, LookupError, msgpack.UnpackException) as error:
        raise InputError(
            f"{len(buf)} bytes are damaged or were not made by tensorpack in msgpack (early versions: pyarrow): {error}"
        ) from error


def holds_arrays(obj: Any) -> bool:
    """Tell whether there are maps in an object that tensorpack means arrays by.

    Args:
        obj: what msgpack made of bytes that may be tensorpack's or not.
    """
    if isinstance(obj, list):
        return any(map(holds_arrays, obj))
    if isinstance(obj, dict):
        return obj.keys() >= {b"nd", b"type", b"data"} or any(map(holds_arrays, obj.values()))
    return False


def _decode(entries: dict[Any, Any]) -> Any:
    """Turn a map that stands for an array, a scalar or a complex number into it; leave others alone."""
    # Before msgpack had bytes of their own, the names were strings.
    named = {key.decode("ascii", "replace") if isinstance(key, bytes) else key: value for key, value in entries.items()}
    if named.keys() >= {"nd", "type", "data"}:
        return _make_array(named)
    if named.get("complex") is True:
        return complex(named["data"])
    return entries


def _make_array(entries: dict[str, Any]) -> Any:
    """Make an array or a numpy scalar."""
    kind = entries.get("kind") or b""
    is_object = kind in (b"O", "O") or entries["type"] in ("O", "|O", b"O", b"|O")
    if is_object:
        raise InputError(
            "an array of Python objects was pickled by tensorpack, and loading a pickle runs code: "
            "wanted arrays of numbers or strings; write the data again without objects"
        )
    dtype = _make_dtype(entries["type"])
    shape = tuple(entries["shape"]) if entries["nd"] else ()
    if len(entries["data"]) != dtype.itemsize * math.prod(shape):
        raise ValueError(f"an array of shape {shape} and dtype {dtype} has {len(entries['data'])} bytes")
    array = np.ndarray(shape, dtype, entries["data"]).copy()
    return array if entries["nd"] else array[()]


def _make_dtype(description: Any) -> np.dtype:
    """Return a dtype that holds no Python objects."""
    if isinstance(description, list):
        description = [_make_field(field) for field in description]
    elif isinstance(description, bytes):
        description = description.decode("ascii")
    dtype = np.dtype(description)
    if dtype.hasobject:
        raise InputError(f"an array of dtype {dtype} holds Python objects, which were pickled: it is not loaded")
    return dtype


def _make_field(field: list[Any]) -> tuple[Any, ...]:
    """Return a field of a record as numpy wants it, in tuples."""
    name, kind, *shape = (part.decode("ascii") if isinstance(part, bytes) else part for part in field)
    kind = [_make_field(inner) for inner in kind] if isinstance(kind, list) else kind
    return (name, kind, *map(tuple, shape))
