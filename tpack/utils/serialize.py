"""Data points as bytes for other processes and files: msgpack, with numpy arrays as an extension.

Loading makes numbers, strings, bytes, lists, dicts and arrays, and never runs code, in memory bounded by the number of
bytes. A tuple comes back as a list, a numpy scalar that is a Python number (``float64``) as that. An array keeps dtype,
shape and memory order, and owns its memory. Types from outside numpy, such as ``bfloat16``, are refused: view them as
integers. Bytes on disk are sealed with a checksum.
"""

import json
import math
import re
import zlib
from typing import TYPE_CHECKING, Any, Literal

import msgpack
import numpy as np

from tpack.errors import DataPointError, InputError
from tpack.utils.lazy import LazyModule

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["dumps", "loads", "seal", "seal_json", "unseal", "unseal_json"]

# Loaded for results of tensorpack's serializer.
_tensorpack_points = LazyModule("tpack.utils.formats.tensorpack_points")

_ARRAY, _SCALAR = 1, 2
_PICKLE = 0x80
# msgpack's timestamps, which `dumps` does not make, become numbers.
_TIMESTAMP_AS_FLOAT = 1
_HEADER_SIZE_BYTES = 2
_CHECKSUM_SIZE_BYTES = 4
_CHECKSUM = "crc32"
# Booleans, integers, floats, complex numbers, bytes, strings, and times; neither objects nor records. Numpy's parser
# would accept many more notations.
_KINDS = "biufcSUmM"
_DTYPE_NAME = re.compile(rf"[<>|][{_KINDS}][1-9][0-9]{{0,9}}(\[[0-9]{{0,9}}[A-Za-z\u03bc]{{1,2}}\])?")


def dumps(obj: object) -> bytes:
    """Serialize an object.

    Args:
        obj: made of numbers, strings, bytes, None, lists, tuples, dicts, numpy arrays and numpy scalars.

    Raises:
        DataPointError: The object holds something else, an array of objects or records, or an integer beyond 64 bits.
    """
    try:
        return msgpack.packb(obj, default=_encode, use_bin_type=True)
    except (OverflowError, ValueError, TypeError) as error:
        raise DataPointError(f"an object of type {type(obj).__name__} cannot be serialized: {error}") from error


def loads(buf: "Buffer") -> Any:
    """Deserialize the result of ``dumps``, or of tensorpack's, which scripts have in files.

    Args:
        buf: bytes, or an object with the buffer interface.

    Raises:
        InputError: The bytes are not from ``dumps``, or incomplete.
    """
    content = memoryview(buf).cast("B")
    # In msgpack this byte alone is an empty map.
    if content.nbytes > 1 and content[0] == _PICKLE:
        return _tensorpack_points.loads(buf)
    hooks = {"object_hook": _decode_map, "ext_hook": _decode}
    try:
        check_sizes(buf)
        return msgpack.unpackb(buf, raw=False, strict_map_key=False, timestamp=_TIMESTAMP_AS_FLOAT, **hooks)
    except InputError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        size = memoryview(buf).nbytes
        raise InputError(f"{size} bytes are damaged or were not made by tpack.utils.serialize: {error}") from error


def seal(content: bytes) -> bytes:
    """Prepend the CRC-32 of bytes."""
    return zlib.crc32(content).to_bytes(_CHECKSUM_SIZE_BYTES, "little") + content


def unseal(sealed: bytes) -> bytes:
    """Return sealed bytes.

    Raises:
        InputError: They are damaged, or were not sealed.
    """
    content = sealed[_CHECKSUM_SIZE_BYTES:]
    if seal(content) != sealed:
        raise InputError(
            f"{len(sealed)} bytes have another checksum than they should: they are damaged, or were written without "
            "one, as before tpack had checksums"
        )
    return content


def seal_json(content: dict[str, Any]) -> str:
    """Return a dict as JSON, with the checksum in the entry ``crc32``."""
    return json.dumps({**content, _CHECKSUM: _json_checksum(content)})


def unseal_json(text: str) -> dict[str, Any]:
    """Return a sealed dict, with strings for keys and lists for tuples.

    Raises:
        InputError: It is damaged, or was not sealed.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{len(text)} characters are no JSON: {error}") from error
    checksum = content.pop(_CHECKSUM, None) if isinstance(content, dict) else None
    if checksum != _json_checksum(content):
        raise InputError(
            f"the checksum is {checksum} and should be {_json_checksum(content)}: the content is damaged, or was "
            "written without one, as before tpack had checksums"
        )
    return content


def _json_checksum(content: object) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def check_sizes(buf: "Buffer") -> None:
    """Let msgpack raise for bytes that claim more elements than follow, since unpacking allocates the claimed sizes.

    Args:
        buf: bytes in msgpack, or an object with the buffer interface.
    """
    unpacker = msgpack.Unpacker(max_buffer_size=max(1, memoryview(buf).nbytes))
    unpacker.feed(buf)
    unpacker.skip()


def _encode(obj: object) -> msgpack.ExtType:
    """Encode an object unknown to msgpack."""
    if not isinstance(obj, (np.ndarray, np.generic)):
        raise DataPointError(
            f"an object of type {type(obj).__module__}.{type(obj).__qualname__} cannot be serialized: "
            "expected numbers of up to 64 bits, strings, bytes, None, lists, tuples, dicts and numpy arrays"
        )
    if isinstance(obj, np.ma.MaskedArray):
        raise DataPointError("a masked array cannot be serialized: expected an array and its mask by themselves")
    array = np.asarray(obj)
    if array.dtype.kind not in _KINDS or array.dtype.itemsize == 0:
        raise DataPointError(
            f"an array of dtype {array.dtype} cannot be serialized: expected numbers, strings or times"
        )
    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    header = msgpack.packb((array.dtype.str, array.shape, is_fortran))
    size = len(header).to_bytes(_HEADER_SIZE_BYTES, "little")
    content = b"".join([size, header, array.tobytes("F" if is_fortran else "C")])
    return msgpack.ExtType(_SCALAR if isinstance(obj, np.generic) else _ARRAY, content)


def _decode_map(entries: dict[Any, Any]) -> Any:
    """Return a map, or the array, scalar or complex number that it is in tensorpack's format."""
    is_theirs = b"data" in entries and (b"nd" in entries or b"complex" in entries)
    return _tensorpack_points.decode(entries) if is_theirs else entries


def _decode(code: int, data: bytes) -> np.ndarray | np.generic:
    if code not in (_ARRAY, _SCALAR):
        raise ValueError(f"extension type {code} is unknown")
    end = _HEADER_SIZE_BYTES + int.from_bytes(data[:_HEADER_SIZE_BYTES], "little")
    dtype_name, shape, is_fortran = msgpack.unpackb(data[_HEADER_SIZE_BYTES:end])
    if not isinstance(dtype_name, str) or not _DTYPE_NAME.fullmatch(dtype_name):
        raise ValueError(f"dtype {dtype_name!r:.40} is not allowed")
    dtype = np.dtype(dtype_name)
    payload = memoryview(data)[end:]
    if len(payload) != dtype.itemsize * math.prod(shape):
        raise ValueError(f"an array of shape {shape} and dtype {dtype} has {len(payload)} bytes")
    order: Literal["C", "F"] = "F" if is_fortran else "C"
    array: np.ndarray = np.ndarray(shape, dtype, payload, order=order).copy(order)
    return array[()] if code == _SCALAR else array
