"""The checksum of TensorFlow's files, CRC-32C, in numpy: some hundred megabytes a second.

A CRC is linear: what a remainder becomes when zero bytes follow is a linear function of it, which tables hold, one for
each part of the remainder. The data is laid out in rows of `_LANES` words. Each lane keeps the remainder of its own
words as if the others were zero, all in one operation; in the end neighbouring lanes are combined.
"""

import functools

import numpy as np

_POLYNOMIAL = np.uint32(0x82F63B78)
_ALL_ONES = 0xFFFFFFFF
_LANES = 1024
_WORD_SIZE_BYTES = 4
# Below this size a loop over bytes is faster.
_SMALL_SIZE_BYTES = 512
_MASK_DELTA = 0xA282EAD8


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32C (Castagnoli) of bytes, a number of 32 bits.

    Source:
        The checksum of iSCSI, RFC 3720.
    """
    octets = np.frombuffer(data, np.uint8)
    return _of_few(octets.tobytes()) if len(octets) < _SMALL_SIZE_BYTES else _of_many(octets)


def masked_crc32c(data: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32C of bytes as TensorFlow's files hold it: rotated, and moved on by a constant."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ALL_ONES


def _of_few(data: bytes) -> int:
    """Go from byte to byte."""
    table = _byte_list()
    crc = _ALL_ONES
    for octet in data:
        crc = table[(crc ^ octet) & 255] ^ crc >> 8
    return crc ^ _ALL_ONES


def _of_many(octets: np.ndarray) -> int:
    """Go from row to row, then combine the lanes."""
    row_size = _LANES * _WORD_SIZE_BYTES
    padded = np.zeros(-(-len(octets) // row_size) * row_size, np.uint8)
    # Zeros in front leave a remainder of zero as it is. That it begins with ones is made up for in the first bytes.
    start = len(padded) - len(octets)
    padded[start:] = octets
    padded[start : start + _WORD_SIZE_BYTES] ^= 255
    rows = padded.view("<u4").reshape(-1, _LANES)
    low, high = _tables_of_halves(row_size)
    lanes = rows[0].copy()
    halves = lanes.view("<u2").reshape(-1, 2)
    from_low, from_high = np.empty_like(lanes), np.empty_like(lanes)
    for row in rows[1:]:
        # Every index is within a table of 65536; the mode spares a check, and lets the result go where it is wanted.
        np.take(low, halves[:, 0], out=from_low, mode="clip")
        np.take(high, halves[:, 1], out=from_high, mode="clip")
        np.bitwise_xor(from_low, from_high, out=lanes)
        np.bitwise_xor(lanes, row, out=lanes)
    return _combine(lanes) ^ _ALL_ONES


def _combine(lanes: np.ndarray) -> int:
    """Return the remainder of all words, given the one that each lane has of its own."""
    followed_by = _WORD_SIZE_BYTES
    lanes = _apply(_tables(followed_by), lanes)
    while len(lanes) > 1:
        lanes = _apply(_tables(followed_by), lanes[0::2]) ^ lanes[1::2]
        followed_by *= 2
    return int(lanes[0])


def _apply(tables: np.ndarray, crcs: np.ndarray) -> np.ndarray:
    """Map remainders by the linear function that four tables, one for each byte, hold."""
    result = tables[0][crcs & 255]
    for place in (1, 2, 3):
        result ^= tables[place][crcs >> np.uint32(8 * place) & 255]
    return result


@functools.cache
def _tables(num_zeros: int) -> np.ndarray:
    """Return the tables of a power of two of zero bytes that follow a remainder; of shape [4, 256]."""
    images = np.arange(256, dtype=np.uint32) << np.uint32(8) * np.arange(4, dtype=np.uint32)[:, None]
    if num_zeros == 1:
        return _byte_table()[images & 255] ^ images >> np.uint32(8)
    half = _tables(num_zeros // 2)
    return _apply(half, _apply(half, images.ravel())).reshape(4, 256)


@functools.cache
def _tables_of_halves(num_zeros: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the same function in two tables, one for each half of a remainder; each of shape [65536]."""
    values = np.arange(65536, dtype=np.uint32)
    tables = _tables(num_zeros)
    return _apply(tables, values), _apply(tables, values << np.uint32(16))


@functools.cache
def _byte_table() -> np.ndarray:
    """Return what each byte becomes when a zero byte follows; of shape [256]."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> np.uint32(1) ^ _POLYNOMIAL, table >> np.uint32(1))
    return table


@functools.cache
def _byte_list() -> list[int]:
    """Return the same as Python's integers, which a loop is faster with."""
    return _byte_table().tolist()
