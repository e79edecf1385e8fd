"""Objects as arrays and the rest."""

import gc
import threading
import weakref
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest

from tpack.dataflow.parallel.codec import ALIGNMENT, ArraySpec, Encoded, aligned, decode
from tpack.errors import DataPointError

ARRAYS = {
    "bytes": np.arange(5, dtype=np.uint8),
    "matrix": np.arange(12.0).reshape(3, 4),
    "Fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "flipped": np.arange(12).reshape(3, 4)[:, ::-1],
    "scalar": np.array(5.5),
    "empty": np.zeros((0, 3)),
    "big-endian": np.arange(3, dtype=">i4"),
    "times": np.array(["2020-01-01", "NaT"], "M8[D]"),
    "text": np.array(["a", "bcd"]),
    "records": np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]),
    "read-only": np.broadcast_to(np.float32(2), (2, 2)),
    "objects": np.array(["a", None, {}], object),
    "masked": np.ma.array([1, 2], mask=[0, 1]),
}


@dataclass
class Sample:
    """Something that holds an array and is neither list nor dict."""

    image: np.ndarray
    name: str


def write(obj, *, layout=None):
    encoded = Encoded(obj)
    if layout is not None:
        encoded.lay_out(*layout)
    memory = np.zeros(encoded.size_bytes, np.uint8)
    encoded.write(memory)
    return encoded, memory


def trip(obj):
    encoded, memory = write(obj)
    return decode(memory, encoded.rest_start, encoded.rest_size, lambda spec: spec.view(memory).copy("K"))


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_array_comes_back_as_it_was(array):
    found = trip([array, 1])[0]
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype
    assert type(found) is type(array)
    assert found.flags.f_contiguous == array.flags.f_contiguous or not array.flags.contiguous


def test_structure_comes_back_as_it_was():
    shared = np.arange(3)
    point = {"a": (1, 2.5, None), "b": [b"x", "y", [np.float32(3), shared]], "c": Sample(shared, "name")}
    found = trip(point)
    assert found["a"] == (1, 2.5, None)
    assert found["b"][:2] == [b"x", "y"]
    assert type(found["b"][2][0]) is np.float32
    assert found["c"].name == "name"
    # One object stays one object.
    assert found["b"][2][1] is found["c"].image


def test_function_and_local_class_come_back():
    offset = 3

    class Local:
        def value(self):
            return offset

    assert trip(lambda x: x + offset)(4) == 7
    assert trip(Local()).value() == 3


def test_buffers_of_other_kinds_stay_in_the_pickle(tmp_path):
    mapped = np.memmap(tmp_path / "file", np.uint8, "w+", shape=4)
    mapped[:] = 5
    found = trip([bytearray(b"abc"), np.arange(2), mapped])
    assert found[0] == b"abc"
    assert found[1].tolist() == [0, 1]
    assert np.asarray(found[2]).tolist() == [5] * 4


def test_arrays_are_not_in_the_pickle_and_lie_where_tensorflow_wants_them():
    encoded, memory = write([np.zeros(1000), "x", np.ones(7, np.uint8), np.ones(100)])
    assert encoded.rest_size < 500
    assert [spec.start % ALIGNMENT for spec in encoded.specs] == [0, 0, 0]
    assert encoded.largest_array == 8000
    assert encoded.specs[1].view(memory).tolist() == [1] * 7


def test_array_that_lies_there_already_is_not_copied():
    there = np.full(4, 7, np.uint8)
    encoded, memory = write([there, np.ones(2, np.uint8)], layout=(lambda a: 64 if a is there else None, 80))
    assert [spec.start for spec in encoded.specs] == [64, 128]
    assert memory[64:68].tolist() == [0] * 4
    encoded.lay_out(lambda array: None, 0)
    assert [spec.start for spec in encoded.specs] == [0, 64]


def test_arrays_that_were_sent_are_let_go_at_once():
    array = np.zeros(1000)
    is_there = weakref.ref(array)
    gc.disable()
    try:
        Encoded([array, {"more": [array]}])
        del array
        assert is_there() is None
    finally:
        gc.enable()


def test_open_files_and_archives_are_opened_again(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("name", b"content")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive, open(tmp_path / "a.zip", "rb") as file:
        file.read(2)
        again, file_again = trip([archive, file])
        with again, file_again:
            assert again is not archive
            assert again.read("name") == b"content"
            assert file_again.read() == file.read()
    with (
        zipfile.ZipFile(tmp_path / "b.zip", "w") as archive,
        pytest.raises(DataPointError, match="cannot be sent to another process"),
    ):
        Encoded([archive])


def test_what_cannot_be_pickled_is_named():
    with pytest.raises(DataPointError, match="type list cannot be sent to another process: TypeError.*lock"):
        Encoded([threading.Lock()])


@pytest.mark.parametrize(("start", "expected"), [(0, 0), (1, 64), (64, 64), (65, 128)])
def test_aligned_is_the_next_multiple(start, expected):
    assert aligned(start) == expected


def test_size_of_a_specification():
    assert ArraySpec(0, "<f4", (2, 3), "C").size_bytes == 24
    assert ArraySpec(0, "<f4", (), "C").size_bytes == 4
