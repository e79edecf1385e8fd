"""Data points as bytes and back."""

import datetime
import pickle

import ml_dtypes
import msgpack
import numpy as np
import pytest

from tpack.errors import DataPointError, InputError
from tpack.utils.serialize import dumps, loads, seal, unseal

DTYPES = [
    *(
        "?",
        "i1",
        "u1",
        "i8",
        "u8",
        "f2",
        "f4",
        "f8",
        "f16",
        "c8",
        "c16",
        "S3",
        "U2",
        "M8[ns]",
        "M8[25us]",
        "m8[s]",
        "m8",
    ),
    *(">u2", ">f4", ">c16", ">U2", ">M8[D]"),
]


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
        ({1, 2}, "type builtins.set cannot be serialized: expected numbers"),
        ([object()], "type builtins.object cannot be serialized"),
        (datetime.date(2020, 1, 1), "type datetime.date cannot be serialized"),
        (np.array([None]), "array of dtype object cannot be serialized"),
        (np.zeros(2, "i4,f4"), "cannot be serialized: expected numbers, strings or times"),
        (np.ma.masked_array([1, 2], [0, 1]), "a masked array cannot be serialized"),
        (np.zeros(2, [("a", "S0")])["a"], "cannot be serialized: expected numbers"),
        (ml_dtypes.bfloat16(1), "array of dtype bfloat16 cannot be serialized"),
        (2**64, "type builtins.int cannot be serialized: expected numbers of up to 64 bits"),
        ("\ud800", "type str cannot be serialized: .*surrogates"),
    ],
    ids=["set", "object", "date", "object array", "records", "masked", "no bytes", "bfloat16", "long", "surrogate"],
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
        (extension(1, ("|O", (1,), False), b"12345678"), "dtype '|O' is not allowed"),
        (extension(1, ("<f4", (2,), False), b"1234"), r"shape \[2\] and dtype float32 has 4 bytes"),
        (extension(1, ("nonsense", (1,), False), b"1234"), "dtype 'nonsense' is not allowed"),
        (extension(1, (None, (1,), False), b"12345678"), "dtype None is not allowed"),
        (extension(1, ("|S0", (2**40,), False), b""), r"dtype '\|S0' is not allowed"),
        (extension(1, ("<f4,<f4", (1,), False), b"12345678"), "dtype '<f4,<f4' is not allowed"),
        (extension(1, ("<f3", (1,), False), b"123"), "damaged"),
        (extension(1, ("<f4", (2**40, 2**40), False), b"1234"), "has 4 bytes"),
        (extension(1, ("<f4", (2**63, 0), False), b""), "damaged"),
        (extension(1, ("<f4", (-1, -1), False), b"1234"), "damaged"),
        (extension(1, ("<f4", 1, False), b"1234"), "damaged"),
        (extension(1, ("<f4", (1,)), b"1234"), "damaged"),
        (b"\xdd\xff\xff\xff\xff", "5 bytes are damaged"),
        (b"\x91" * 5000 + b"\x00", "damaged"),
        (msgpack.packb({(1, 2): 3}), "damaged"),
        (pickle.dumps(print), "neither msgpack nor a pickle of arrays"),
    ],
)
def test_damaged_bytes_raise(data, message):
    with pytest.raises(InputError, match=message):
        loads(data)


def test_sealed_bytes_come_back_and_changed_ones_are_refused():
    sealed = seal(b"content")
    assert unseal(sealed) == b"content"
    assert unseal(seal(b"")) == b""
    for damaged in (b"", sealed[:3], sealed[:-1], sealed + b"!", b"content", sealed[:-1] + b"T"):
        with pytest.raises(InputError, match=rf"{len(damaged)} bytes have another checksum than they should"):
            unseal(damaged)
