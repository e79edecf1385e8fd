"""The checksum of TensorFlow's files, against known values and a bit-by-bit computation."""

import numpy as np
import pytest

from tpack.utils.formats.crc32c import crc32c, masked_crc32c


def bit_by_bit(data):
    crc = 0xFFFFFFFF
    for octet in data:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_known_values(data, expected):
    assert crc32c(data) == expected


@pytest.mark.parametrize("size", [1, 3, 511, 512, 513, 4095, 4096, 4097, 12289])
def test_every_size_gives_what_one_bit_at_a_time_gives(size, rng):
    data = rng.integers(0, 256, size, np.uint8)
    assert crc32c(data) == bit_by_bit(data.tobytes())


def test_leading_zeros_count():
    assert len({crc32c(bytes(size)) for size in range(600, 640)}) == 40


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_bytes_is_taken(kind):
    assert crc32c(kind(b"123456789")) == 0xE3069283


def test_every_flipped_bit_is_noticed(rng):
    data = rng.integers(0, 256, 5000, np.uint8)
    whole = crc32c(data)
    for place in range(0, 5000, 97):
        data[place] ^= 1 << place % 8
        assert crc32c(data) != whole
        data[place] ^= 1 << place % 8


def test_masked_value_is_rotated_and_moved_on():
    # Of the eight bytes of the length 0, as TensorFlow writes them in front of an empty record.
    assert masked_crc32c((0).to_bytes(8, "little")) == 0x07980329
