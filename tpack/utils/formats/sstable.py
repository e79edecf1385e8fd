"""The sorted table of strings that LevelDB made and TensorFlow keeps the index of a checkpoint in.

A file is blocks and a footer. A block is entries in the order of their keys, each with as much of its key as differs
from the one before, then places to begin from; after it come a byte for its compression and a checksum. The values in
the last block, the index, say where the others are; the footer says where the index is.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tpack.errors import InputError
from tpack.utils.formats.crc32c import masked_crc32c

_FOOTER_SIZE_BYTES = 48
_MAGIC = bytes.fromhex("57fb808b247547db")
_NUMBER = struct.Struct("<I")
_TRAILER = struct.Struct("<BI")
_MOST_BYTES_OF_NUMBER = 10


class NotReadError(Exception):
    """A file has what only TensorFlow reads; it goes no further than to who asks TensorFlow then."""


class _Handle(NamedTuple):
    """The place of a block."""

    offset: int
    size: int


class Cursor:
    """Reads numbers of 7 bits a byte, the lowest first, and pieces of bytes, up to an end."""

    def __init__(self, data: bytes, end: int | None = None) -> None:
        self._data = data
        self._end = len(data) if end is None else end
        self._place = 0

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self._place >= self._end

    def number(self) -> int:
        """Return the next number, of up to 64 bits; raise InputError if it ends too late, or not at all."""
        number = 0
        for index in range(_MOST_BYTES_OF_NUMBER):
            (octet,) = self.take(1)
            number |= (octet & 127) << 7 * index
            if octet < 128:
                return number & 0xFFFFFFFFFFFFFFFF
        raise InputError("a number is longer than 64 bits")

    def take(self, size: int) -> bytes:
        """Return the next bytes; raise InputError if there are fewer."""
        begin, self._place = self._place, self._place + size
        if self._place > self._end:
            raise InputError(f"{size} bytes were to follow at byte {begin}, and there are {self._end - begin}")
        return self._data[begin : self._place]


def read_table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a table, in the order of the keys.

    Args:
        data: all of the file.

    Raises:
        InputError: The file is not such a table, was cut off, or is damaged.
        NotReadError: A block is compressed.

    Source:
        The table format of LevelDB, https://github.com/google/leveldb/blob/main/doc/table_format.md
    """
    footer = data[-_FOOTER_SIZE_BYTES:]
    if len(footer) < _FOOTER_SIZE_BYTES or not footer.endswith(_MAGIC):
        raise InputError("it does not end as a table does")
    handles = Cursor(footer)
    # Nothing is in the first block, but damage to it is damage.
    _block(data, _handle(handles))
    last: bytes | None = None
    for _, value in _entries(_block(data, _handle(handles))):
        for key, inner in _entries(_block(data, _handle(Cursor(value)))):
            if last is not None and key <= last:
                raise InputError(f"the key {key!r} follows {last!r}")
            last = key
            yield key, inner


def _handle(cursor: Cursor) -> _Handle:
    return _Handle(cursor.number(), cursor.number())


def _block(data: bytes, handle: _Handle) -> bytes:
    """Return a block without its trailer, checked."""
    end = handle.offset + handle.size
    if end + _TRAILER.size > len(data) - _FOOTER_SIZE_BYTES:
        raise InputError(f"a block at byte {handle.offset} was to have {handle.size} bytes, and the file is shorter")
    compression, checksum = _TRAILER.unpack_from(data, end)
    if checksum != masked_crc32c(data[handle.offset : end + 1]):
        raise InputError(f"the checksum of the block at byte {handle.offset} does not fit it")
    if compression:
        raise NotReadError("a block is compressed")
    return data[handle.offset : end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block."""
    end = len(block) - _NUMBER.size
    (num_restarts,) = _NUMBER.unpack_from(block, end) if end >= 0 else (0,)
    cursor = Cursor(block, max(0, end - num_restarts * _NUMBER.size))
    key = b""
    while not cursor.is_at_end:
        num_shared, num_own, size = cursor.number(), cursor.number(), cursor.number()
        if num_shared > len(key):
            raise InputError(f"a key shares {num_shared} bytes with one of {len(key)}")
        key = key[:num_shared] + cursor.take(num_own)
        yield key, cursor.take(size)
