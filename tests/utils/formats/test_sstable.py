"""Sorted tables against what TensorFlow writes, and against bytes that are none."""

import struct

import pytest

from tests.helpers.checkpoints import save_checkpoint
from tpack.errors import InputError
from tpack.utils.formats.crc32c import masked_crc32c
from tpack.utils.formats.sstable import NotReadError, read_table


def block(*entries, compression=0):
    """Return a block of (bytes shared with the key before, rest of the key, value), with its trailer."""
    parts = [bytes([shared, len(key), len(value)]) + key + value for shared, key, value in entries]
    data = b"".join(parts) + struct.pack("<II", 0, 1) + bytes([compression])
    return data + struct.pack("<I", masked_crc32c(data))


def table(inner):
    """Return a table of one block."""
    empty = block()
    index = block((0, b"z", bytes([len(empty), len(inner) - 5])))
    ends = [0, len(empty) - 5, len(empty) + len(inner), len(index) - 5]
    footer = bytes(ends).ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")
    return empty + inner + index + footer


def test_keys_share_their_beginnings():
    data = table(block((0, b"model/w", b"1"), (6, b"x", b""), (2, b"\xff", b"22")))
    assert list(read_table(data)) == [(b"model/w", b"1"), (b"model/x", b""), (b"mo\xff", b"22")]


def test_keys_of_a_checkpoint_are_its_names_after_the_header(tmp_path):
    with open(save_checkpoint(tmp_path, {"b": 1.0, "a/c": 2.0}) + ".index", "rb") as file:
        assert [key for key, _ in read_table(file.read())] == [b"", b"a/c", b"b"]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"", InputError, "does not end as a table does"),
        (b"x" * 100, InputError, "does not end as a table does"),
        (table(block())[-48:], InputError, "and the file is shorter"),
        (table(block((0, b"b", b""), (0, b"a", b""))), InputError, "the key b'a' follows b'b'"),
        (table(block((0, b"b", b""), (2, b"a", b""))), InputError, "shares 2 bytes with one of 1"),
        (table(block((0, b"b", b""), compression=1)), NotReadError, "compressed"),
        (table(block((0, b"b", b""))[:-1] + b"!"), InputError, "does not fit it"),
    ],
)
def test_what_makes_no_sense_is_an_error(data, error, message):
    with pytest.raises(error, match=message):
        list(read_table(data))
