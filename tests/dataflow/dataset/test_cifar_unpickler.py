"""Pickles of arrays, and of what must never be made."""

import codecs
import pickle
import pickletools

import numpy as np
import pytest

from tests.helpers.dataset_files import python2_pickle
from tpack.dataflow.dataset.cifar import load_arrays
from tpack.errors import InputError

ARRAY = np.arange(12, dtype=np.uint8).reshape(3, 4)
CONTENT = {"data": ARRAY, "labels": [3, 1], "batch_label": "one", "filenames": ["a.png", "b.png"]}


class Evil:
    """Leaves a mark where it is unpickled."""

    def __reduce__(self):
        return (exec, ("import sys; sys.evil_was_here = True",))


def write(tmp_path, content):
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    return str(path)


def test_pickle_of_python_2_is_read(tmp_path):
    content = python2_pickle(CONTENT)
    found = load_arrays(write(tmp_path, content))
    np.testing.assert_array_equal(found.pop("data"), ARRAY)
    assert found == {"labels": [3, 1], "batch_label": b"one", "filenames": ["a.png", "b.png"]}
    # The helper writes what pickle itself reads as such.
    np.testing.assert_array_equal(pickle.loads(content, encoding="latin1")["data"], ARRAY)
    assert "numpy.core.multiarray _reconstruct" in {arg for _, arg, _ in pickletools.genops(content)}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_of_python_3_is_read(tmp_path, protocol):
    bright = np.arange(250, 256, dtype=np.uint8)
    arrays = {"data": ARRAY, "fortran": np.asfortranarray(ARRAY), "bright": bright, "none": ARRAY[:0]}
    found = load_arrays(write(tmp_path, pickle.dumps({**arrays, "labels": [3], "text": [b"", b"one"]}, protocol)))
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    assert (found["labels"], found["text"]) == ([3], ["", "one"])


@pytest.mark.parametrize("arguments", [(b"data", "latin1"), ("data", "rot13"), ("data", "utf-7"), (7, "latin1")])
def test_only_bytes_are_encoded(tmp_path, arguments):
    class Encoded:
        def __reduce__(self):
            return (codecs.encode, arguments)

    with pytest.raises(InputError, match="it encodes another object than bytes"):
        load_arrays(write(tmp_path, pickle.dumps({"data": Encoded()})))


def test_bytes_of_a_size_are_not_made(tmp_path):
    class Huge:
        def __reduce__(self):
            return (bytes, (10**12,))

    with pytest.raises(InputError, match="a pickle of arrays: TypeError"):
        load_arrays(write(tmp_path, pickle.dumps({"data": Huge()}, 2)))


@pytest.mark.parametrize("value", [Evil(), {"data": Evil()}, {"data": [Evil()]}, {"data": print}, {"data": np.float32}])
def test_nothing_else_is_made(tmp_path, value):
    path = write(tmp_path, pickle.dumps(value))
    with pytest.raises(InputError, match="data_batch_1 cannot be read as a pickle of arrays"):
        load_arrays(path)
    assert not hasattr(__import__("sys"), "evil_was_here")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "has a list: expected a dict"),
        ({"data": ARRAY.astype(np.float32)}, r"has no array of unsigned bytes in 'data': shape \(3, 4\), dtype 'f4'"),
        ({"data": np.array([{}], dtype=object)}, "it has no array of numbers or text: dtype 'O8'"),
        ({"data": b"x", b"more": np.zeros(2, "M8[s]")}, "it has no array of numbers or text: dtype 'M8'"),
    ],
)
def test_other_content_is_refused(tmp_path, value, message):
    with pytest.raises(InputError, match=message):
        load_arrays(write(tmp_path, pickle.dumps(value, 4)))


def test_array_that_lacks_bytes_is_refused(tmp_path):
    content = python2_pickle({"data": ARRAY}).replace(b"J\x04\x00\x00\x00t", b"J\x05\x00\x00\x00t")
    with pytest.raises(InputError, match=r"it has no array of numbers or text: shape \(3, 5\)"):
        load_arrays(write(tmp_path, content))


def test_array_that_was_never_filled_is_refused(tmp_path):
    content = b"\x80\x02}(U\x04datacnumpy\nndarray\n)Ru."
    with pytest.raises(InputError, match="it has no array of numbers or text"):
        load_arrays(write(tmp_path, content))


def test_damaged_pickles_are_refused(tmp_path, rng):
    content = python2_pickle(CONTENT)
    for length in range(0, len(content) - 1, 7):
        with pytest.raises(InputError, match="data_batch_1"):
            load_arrays(write(tmp_path, content[:length]))


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="FileNotFoundError"):
        load_arrays(str(tmp_path / "gone"))


def test_place_that_would_take_gigabytes_is_refused(tmp_path):
    content = pickle.dumps({"labels": [3, 1]}, protocol=2)
    for place in (b"r" + (1 << 30).to_bytes(4, "little"), b"p1073741824\n"):
        with pytest.raises(InputError, match="UnpicklingError: it has an object at memo index 1073741824"):
            load_arrays(write(tmp_path, content[:-1] + place + b"."))
