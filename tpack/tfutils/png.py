"""Encode an image as PNG with nothing but zlib, so that writing an image summary needs no image library.

The encoder filters nothing, so the files are larger than a real encoder's.
"""

import struct
import zlib
from typing import Any

import numpy as np

from tpack.errors import ConfigError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# PNG's colour type for each number of channels: grey, RGB, RGB with alpha.
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}


def encode_png(image: Any) -> bytes:
    """Return the PNG file of one image.

    Args:
        image: uint8 of shape (height, width, channels) with 1, 3 or 4 channels.

    Raises:
        ConfigError: The dtype or the shape is another one.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in _COLOUR_TYPES or not image.size:
        raise ConfigError(f"wanted an uint8 image of shape (H, W, 1, 3 or 4), got {image.dtype} {image.shape}")
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    # Each row begins with the number of its filter; 0 is none.
    rows = np.zeros((height, 1 + width * channels), np.uint8)
    rows[:, 1:] = image.reshape(height, -1)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows.tobytes())) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
