"""Data points as bytes and back."""

import datetime
import pickle

import msgpack
import numpy as np
import pytest

from tpack.errors import DataPointError, InputError
from tpack.utils.serialize import dumps, loads

DTYPES = ["?", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "c8", "c16", ">f4", "S3", "U2", "M8[ns]", "m8[s]"]


def make_array(dtype, shape):
    size = int(np.prod(shape))
    return np.arange(size).astype("i8").astype(dtype).reshape(shape)


def assert_same_array(found, wanted):
    assert type(found) is np.ndarray
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    assert found.flags.c_contiguous == wanted.flags.c_contiguous
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("obj", [None, True, -3, 2**63, 1.5, "grün", b"\0", [1, [2.5, "a"]], {"a": [1], 3: None}])
def test_plain_object_comes_back(obj):
    assert loads(dumps(obj)) == obj


def test_tuple_comes_back_as_list():
    assert loads(dumps((1, (2, 3)))) == [1, [2, 3]]


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3, 4)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_array_comes_back(dtype, shape):
    array = make_array(dtype, shape)
    assert_same_array(loads(dumps(array)), array)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12).reshape(3, 4).T,
        np.arange(24).reshape(2, 3, 4)[:, ::2, ::-1],
        np.broadcast_to(np.arange(3), (4, 3)),
    ],
    ids=["fortran", "strided", "broadcast"],
)
def test_array_of_any_memory_layout_comes_back(array):
    found = loads(dumps(array))
    np.testing.assert_array_equal(found, array)
    assert found.flags.f_contiguous == array.flags.f_contiguous


@pytest.mark.parametrize("scalar", [np.float32(1.5), np.int64(-3), np.bool_(True), np.datetime64(5, "s")])
def test_numpy_scalar_comes_back_with_its_type(scalar):
    found = loads(dumps({"a": [scalar]}))["a"][0]
    assert found == scalar
    assert found.dtype == scalar.dtype


def test_loaded_array_is_writable_and_its_own():
    data = bytearray(dumps(np.zeros(3)))
    array = loads(data)
    array[0] = 1
    assert loads(data)[0] == 0


def test_array_inside_a_data_point_comes_back():
    image, label = np.ones((2, 2), "u1"), 3
    found = loads(memoryview(dumps([image, label])))
    assert_same_array(found[0], image)
    assert found[1] == 3


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({1, 2}, "type builtins.set cannot be serialized: wanted numbers"),
        ([object()], "type builtins.object cannot be serialized"),
        (datetime.date(2020, 1, 1), "type datetime.date cannot be serialized"),
        (np.array([None]), "array of dtype object cannot be serialized"),
        (np.zeros(2, "i4,f4"), "cannot be serialized: wanted numbers, strings or times"),
        (2**64, "type builtins.int cannot be serialized: wanted numbers of up to 64 bits"),
        ("\ud800", "type str cannot be serialized: .*surrogates"),
    ],
    ids=["set", "object", "date", "object array", "records", "long", "surrogate"],
)
def test_what_cannot_be_serialized_raises(obj, message):
    with pytest.raises(DataPointError, match=message):
        dumps(obj)


def extension(code, header, payload):
    packed = msgpack.packb(header)
    return msgpack.packb(msgpack.ExtType(code, len(packed).to_bytes(2, "little") + packed + payload))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (dumps([np.zeros(3)])[:-1], "damaged"),
        (b"", "0 bytes are damaged"),
        (dumps(1) + b"\0", "damaged"),
        (extension(9, ("<f4", (1,), False), b"1234"), "extension type 9 is unknown"),
        (extension(1, ("|O", (1,), False), b"12345678"), "dtype object is not allowed"),
        (extension(1, ("<f4", (2,), False), b"1234"), r"shape \[2\] and dtype float32 has 4 bytes"),
        (extension(1, ("nonsense", (1,), False), b"1234"), "nonsense"),
        (pickle.dumps(np.zeros(3)), "not made by tpack"),
    ],
    ids=["cut", "empty", "too long", "unknown extension", "objects", "too short", "no dtype", "pickle"],
)
def test_damaged_bytes_raise(data, message):
    with pytest.raises(InputError, match=message):
        loads(data)
