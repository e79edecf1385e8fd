"""Data points in tensorpack's format, written out here as msgpack-numpy does it."""

import pickle

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpack.errors import InputError
from tpack.utils import serialize
from tpack.utils.formats.tensorpack_points import loads


def encode(value):
    """Return what msgpack-numpy makes of an array, a numpy scalar or a complex number."""
    if isinstance(value, np.ndarray):
        is_record = value.dtype.kind == "V"
        kind, description = (b"V", value.dtype.descr) if is_record else (b"", value.dtype.str)
        return {b"nd": True, b"type": description, b"kind": kind, b"shape": value.shape, b"data": value.tobytes()}
    if isinstance(value, np.generic):
        return {b"nd": False, b"type": value.dtype.str, b"data": value.tobytes()}
    return {b"complex": True, b"data": repr(value)}


def as_text_keys(entries):
    return {key.decode(): value for key, value in entries.items()}


ARRAYS = [
    np.arange(6, dtype="i4").reshape(2, 3),
    np.array(1.5),
    np.zeros((0, 2), ">f8"),
    np.array(["a", "bc"]),
    np.array([1, 5], "M8[D]"),
    np.array([(1, 2.0, [3, 4])], [("a", "<i4"), ("b", "<f4"), ("c", "<i2", (2,))]),
    np.array([((1, 2),)], [("pair", [("x", "<i2"), ("y", "<i2")])]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.dtype))
@pytest.mark.parametrize("shape_of_keys", [dict, as_text_keys])
def test_array_comes_back_writable(array, shape_of_keys):
    found = loads(msgpack.packb([shape_of_keys(encode(array)), 1]))[0]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
    assert found.flags.writeable


def test_scalars_and_plain_values_come_back():
    found = loads(msgpack.packb([encode(np.float32(1.5)), encode(2 + 3j), "text", b"bytes", {"a": 1, 3: None}]))
    assert found == [1.5, 2 + 3j, "text", b"bytes", {"a": 1, 3: None}]
    assert found[0].dtype == np.float32


class Trap:
    """Pickles as a call that the test would see."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('a pickle was loaded')",))


@pytest.mark.parametrize(
    "entries",
    [
        {b"nd": True, b"type": "|O", b"kind": b"O", b"shape": (1,), b"data": pickle.dumps(Trap())},
        {b"nd": True, b"type": "|O", b"kind": b"", b"shape": (1,), b"data": pickle.dumps(Trap())},
        {b"nd": True, b"type": [("a", "|O")], b"kind": b"V", b"shape": (1,), b"data": bytes(8)},
        {b"nd": True, b"type": "O8", b"kind": b"", b"shape": (1,), b"data": bytes(8)},
    ],
)
def test_pickled_objects_are_refused(entries):
    with pytest.raises(InputError, match="pickle"):
        loads(msgpack.packb([entries]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are damaged"),
        (pickle.dumps([1, 2])[:-2], "damaged, or neither msgpack nor a pickle"),
        (msgpack.packb({**encode(ARRAYS[0]), b"shape": (2, 4)}), r"shape \(2, 4\) and dtype int32 has 24 bytes"),
        (msgpack.packb({**encode(ARRAYS[0]), b"type": "nonsense"}), "neither msgpack nor a pickle"),
        (msgpack.packb({**encode(ARRAYS[0]), b"shape": None}), "neither msgpack nor a pickle"),
        (msgpack.packb({b"complex": True, b"data": "no"}), "neither msgpack nor a pickle"),
        (serialize.dumps([np.zeros(3)]), "extension type 1, which tensorpack does not use"),
    ],
)
def test_damaged_bytes_raise(data, message):
    with pytest.raises(InputError, match=message):
        loads(data)


def test_name_of_a_type_may_be_bytes():
    assert loads(msgpack.packb({**encode(ARRAYS[0]), b"type": b"<i4"})).tolist() == ARRAYS[0].tolist()


VALUES = st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats() | st.text(max_size=6) | st.binary(max_size=8)
FIELDS = st.lists(st.tuples(st.text(max_size=2), st.sampled_from(["<i4", "O", "f8,f8", "(2)i4", "V3"]) | VALUES))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.booleans() | VALUES,
    st.sampled_from(["<f4", "|O", "S0", "<f8,|O", "((2,)", "M8[ns]"]) | VALUES | FIELDS,
    st.lists(st.integers(-3, 2**40) | VALUES, max_size=3) | VALUES,
    VALUES,
)
def test_forged_array_is_refused_or_made(nd, kind, shape, data):
    try:
        found = loads(msgpack.packb([{b"nd": nd, b"type": kind, b"kind": b"", b"shape": shape, b"data": data}]))
    except InputError:
        return
    assert not np.asarray(found[0]).dtype.hasobject


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.binary(max_size=60))
def test_random_bytes_are_refused_or_plain(data):
    try:
        found = loads(data)
    except InputError:
        return
    plain = (type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, np.ndarray, np.generic)
    assert isinstance(found, plain)


def test_the_serializer_reads_them_too():
    theirs = msgpack.packb([{"deep": [encode(ARRAYS[0]), encode(2j)]}])
    for read in (loads, serialize.loads):
        ((array, number),) = [entry["deep"] for entry in read(theirs)]
        np.testing.assert_array_equal(array, ARRAYS[0])
        assert number == 2j
    for ours in ({"nd": 1, "type": 2, "data": 3}, {"complex": True, "data": "x"}, {b"nd": 1}):
        assert serialize.loads(serialize.dumps(ours)) == ours


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_pickles_of_tensorpack_are_read(protocol):
    point = [ARRAYS[0], np.float32(1.5), "text", b"bytes", (1, None), {"a": np.zeros((2, 2), order="F")}]
    for read in (loads, serialize.loads):
        found = read(pickle.dumps(point, protocol))
        np.testing.assert_array_equal(found[0], ARRAYS[0])
        assert found[0].flags.writeable
        assert found[1:5] == point[1:5]
        assert found[5]["a"].flags.f_contiguous
        with pytest.raises(
            InputError, match=r"UnpicklingError: it uses (__builtin__|builtins)\.exec, and only arrays are allowed"
        ):
            read(pickle.dumps([Trap()], protocol))
