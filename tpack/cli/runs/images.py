"""Images in TensorFlow's event files, read without TensorFlow.

A file is a sequence of records: length, checksum, content, checksum. The content is an ``Event`` of protocol buffers,
of which only ``summary.value.image`` is read. An incomplete record, which is being written, ends the file.
"""

import glob
import os
import struct
from collections.abc import Iterator

_LENGTH_BYTES, _CHECKSUM_BYTES = 12, 4
_STEP, _SUMMARY, _VALUE, _TAG, _IMAGE, _ENCODED = 2, 5, 1, 1, 4, 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def latest_images(directory: str, at_most: int) -> dict[str, tuple[int, bytes]]:
    """Return the last images of a run, for at most ``at_most`` names: {name: (step, encoded image)}, sorted by name."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(directory), "events.out.tfevents.*"))):
        for name, step, image in _images_in(path):
            found[name] = (step, image)
    return dict(sorted(found.items())[:at_most])


def _images_in(path: str) -> Iterator[tuple[str, int, bytes]]:
    for record in _records(path):
        step, values = 0, []
        for number, content in _fields(record):
            if number == _STEP and isinstance(content, int):
                step = content
            elif number == _SUMMARY and isinstance(content, bytes):
                values += [value for key, value in _fields(content) if key == _VALUE and isinstance(value, bytes)]
        for value in values:
            fields = dict(_fields(value))
            tag, image = fields.get(_TAG, b""), fields.get(_IMAGE)
            if isinstance(tag, bytes) and isinstance(image, bytes):
                encoded = dict(_fields(image)).get(_ENCODED)
                if isinstance(encoded, bytes):
                    yield tag.decode(errors="replace"), step, encoded


def _records(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while len(header := file.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
            (length,) = struct.unpack("<Q", header[:8])
            content = file.read(length + _CHECKSUM_BYTES)
            if len(content) < length + _CHECKSUM_BYTES:
                return
            yield content[:length]


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the content of each field of a message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            content: int | bytes
            content, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            content, at = message[at : at + size], at + size
        elif kind == _BYTES:
            size, at = _varint(message, at)
            content, at = message[at : at + size], at + size
        else:
            return
        yield key >> 3, content


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number, and the position after it."""
    number = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return number, at
