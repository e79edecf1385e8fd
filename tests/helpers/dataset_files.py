"""Small files in the formats that data sets are published in, written byte by byte."""

import struct

import cv2
import numpy as np


def idx_bytes(array):
    """Return the content of an idx file of unsigned bytes."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", size) for size in array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_jpeg(path, image):
    """Write an image as JPEG, and return what comes back."""
    path.parent.mkdir(parents=True, exist_ok=True)
    encoded = cv2.imencode(".jpg", image)[1]
    path.write_bytes(encoded.tobytes())
    return cv2.imdecode(encoded, cv2.IMREAD_COLOR)


def python2_pickle(value):
    """Return the pickle that Python 2 wrote of a dict of text, integers, lists and arrays of unsigned bytes."""
    return b"\x80\x02" + _opcodes(value) + b"."


def _opcodes(value):
    """Return the opcodes that make a value."""
    if isinstance(value, dict):
        return b"}(" + b"".join(_opcodes(part) for item in value.items() for part in item) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(_opcodes, value)) + b"e"
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, (str, bytes)):
        text = value.encode() if isinstance(value, str) else value
        return b"T" + struct.pack("<i", len(text)) + text
    return _array_opcodes(value)


def _array_opcodes(array):
    """Return the opcodes that numpy wrote under Python 2."""
    name = array.dtype.str[1:]
    empty = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + _opcodes(0) + b"\x85" + _opcodes("b") + b"\x87R"
    )
    dtype = b"cnumpy\ndtype\n" + _opcodes(name) + _opcodes(0) + _opcodes(1) + b"\x87R"
    dtype += b"(" + _opcodes(3) + _opcodes("|") + b"NNN" + _opcodes(-1) + _opcodes(-1) + _opcodes(0) + b"tb"
    shape = b"(" + b"".join(map(_opcodes, array.shape)) + b"t"
    return empty + b"(" + _opcodes(1) + shape + dtype + b"I00\n" + _opcodes(array.tobytes()) + b"tb"


def varint(number):
    """Return an integer as protocol buffers write it."""
    found = b""
    while number >= 0x80:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def mean_blob(mean, *, packed=True):
    """Return Caffe's message of an image of shape (channels, height, width)."""
    sizes = b"".join(varint(field << 3) + varint(size) for field, size in enumerate((1, *mean.shape), 1))
    values = mean.astype("<f4")
    if packed:
        return sizes + varint(5 << 3 | 2) + varint(values.nbytes) + values.tobytes()
    return sizes + b"".join(varint(5 << 3 | 5) + value.tobytes() for value in values.ravel())
