"""The deserializer fed with what no serializer made: whatever comes, it is refused or gives plain values, in bounds."""

import tracemalloc

import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from tpack.errors import InputError
from tpack.utils.serialize import dumps, loads

quick = settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

PLAIN = (type(None), bool, int, float, str, bytes, list, dict, np.ndarray, np.generic)
DTYPES = st.one_of(
    st_numpy.boolean_dtypes(),
    st_numpy.integer_dtypes(),
    st_numpy.floating_dtypes(),
    st_numpy.complex_number_dtypes(),
    st_numpy.byte_string_dtypes(min_len=1, max_len=5),
    st_numpy.unicode_string_dtypes(min_len=1, max_len=5),
    st_numpy.datetime64_dtypes(),
    st_numpy.timedelta64_dtypes(),
)
ARRAYS = st_numpy.arrays(DTYPES, st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
NUMBERS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
LEAVES = NUMBERS | st.text(max_size=8) | st.binary(max_size=8) | ARRAYS
POINTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
)


def holds_only_plain_values(value):
    if isinstance(value, dict):
        return all(map(holds_only_plain_values, [*value, *value.values()]))
    if isinstance(value, list):
        return all(map(holds_only_plain_values, value))
    return isinstance(value, PLAIN) and not (isinstance(value, np.ndarray) and value.dtype.hasobject)


def load_or_refuse(data):
    """Load; whatever comes out of it but plain values and InputError ends the test."""
    try:
        value = loads(data)
    except InputError:
        return
    assert holds_only_plain_values(value)


def assert_equal(found, wanted):
    if isinstance(wanted, (np.ndarray, np.generic)):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert found.tobytes() == wanted.tobytes()
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_equal(one, other)
    elif isinstance(wanted, dict):
        assert_equal([[key, found[key]] for key in wanted], [[key, value] for key, value in wanted.items()])
    else:
        assert (type(found), found) == (type(wanted), wanted)


@quick
@given(POINTS)
def test_everything_comes_back(point):
    assert_equal(loads(dumps(point)), point)


@quick
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_plain(data):
    load_or_refuse(data)


@quick
@given(POINTS, st.data())
def test_cut_off_message_is_refused(point, data):
    whole = dumps(point)
    length = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(InputError, match=f"{length} bytes are damaged"):
        loads(whole[:length])


@quick
@given(st.lists(ARRAYS | LEAVES, min_size=1, max_size=3), st.data())
def test_message_with_flipped_bits_is_refused_or_plain(point, data):
    damaged = bytearray(dumps(point))
    for bit in data.draw(st.lists(st.integers(0, 8 * len(damaged) - 1), min_size=1, max_size=4)):
        damaged[bit // 8] ^= 1 << bit % 8
    load_or_refuse(damaged)


@quick
@given(
    st.integers(-128, 127),
    st.tuples(
        st.none() | st.text(max_size=6) | st.sampled_from(["<f4", "|O", "|S0", "|V3", "<f8,|O", "<U9", "<M8[ns]"]),
        st.lists(st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(), max_size=4) | st.integers() | st.none(),
        st.booleans() | st.none(),
    ),
    st.binary(max_size=16),
)
def test_forged_header_is_refused_or_plain(code, header, payload):
    try:
        packed = msgpack.packb(header)
    except OverflowError:
        return
    content = len(packed).to_bytes(2, "little") + packed + payload
    load_or_refuse(b"\xc9" + len(content).to_bytes(4, "big") + code.to_bytes(1, "big", signed=True) + content)


def test_claimed_sizes_take_no_memory():
    claims = [
        b"\xdd\xff\xff\xff\xff",  # A list, a dict, bytes, a string and an extension of 4 GiB each.
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        msgpack.packb(msgpack.ExtType(1, b"\x0b\x00" + msgpack.packb(("<f8", (10 * 2**30,), False)))),
        # Lists in lists, each said to fill the whole message: together they would take gigabytes.
        b"\xdd\x00\x10\x00\x00" * 400 + bytes(2**20),
    ]
    tracemalloc.start()
    try:
        for claim in claims:
            load_or_refuse(claim)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 * 2**20
