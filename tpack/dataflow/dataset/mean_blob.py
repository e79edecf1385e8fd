"""The mean image of ILSVRC 2012, as Caffe wrote it: a message of protocol buffers, of which four numbers are wanted."""

import numpy as np

from tpack.errors import InputError

# The numbers of the fields: channels, height, width, and the values.
_CHANNELS, _HEIGHT, _WIDTH, _DATA = 2, 3, 4, 5
_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5


def decode_mean_blob(path: str, content: bytes) -> np.ndarray:
    """Return the values, float32 of shape (channels, height, width).

    Args:
        path: the file, for the message.
        content: its bytes.

    Raises:
        InputError: They are no such message, or another number of values than the sizes say.
    """
    sizes = {_CHANNELS: 0, _HEIGHT: 0, _WIDTH: 0}
    values: list[bytes] = []
    try:
        position = 0
        while position < len(content):
            tag, position = _varint(content, position)
            field, kind = tag >> 3, tag & 7
            number, payload, position = _field(content, position, kind)
            if field in sizes and kind == _VARINT:
                sizes[field] = number
            elif field == _DATA:
                values.append(payload)
    except (IndexError, ValueError) as error:
        raise InputError(f"{path} is no message that holds an image: {error}") from error
    shape = (sizes[_CHANNELS], sizes[_HEIGHT], sizes[_WIDTH])
    joined = b"".join(values)
    if len(joined) != 4 * shape[0] * shape[1] * shape[2] or not joined:
        raise InputError(f"{path} holds {len(joined)} bytes of values: wanted 4 for each of {shape}")
    return np.frombuffer(joined, "<f4").astype(np.float32).reshape(shape)


def _field(content: bytes, position: int, kind: int) -> tuple[int, bytes, int]:
    """Return the number or the bytes of a field, and where the next one begins."""
    if kind == _VARINT:
        number, position = _varint(content, position)
        return number, b"", position
    if kind == _LENGTH:
        length, position = _varint(content, position)
    elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
        length = 8 if kind == _EIGHT_BYTES else 4
    else:
        raise ValueError(f"byte {position} begins a field of kind {kind}")
    if position + length > len(content):
        raise ValueError(f"a field of {length} bytes begins at byte {position} of {len(content)}")
    return 0, content[position : position + length], position + length


def _varint(content: bytes, position: int) -> tuple[int, int]:
    """Return an integer of seven bits a byte, and where it ends."""
    number = 0
    for shift in range(0, 70, 7):
        byte = content[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise ValueError(f"the integer before byte {position} does not end")
