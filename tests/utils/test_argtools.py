"""Shapes in short, remembered results, and calls allowed once."""

import gc
import pickle
import weakref

import pytest

from tpack.errors import ConfigError
from tpack.utils.argtools import call_only_once, get_data_format, memoized, memoized_method, shape2d, shape4d


class Thing:
    """Counts the calls of its methods."""

    def __init__(self):
        self.calls = 0

    @call_only_once
    def setup(self, value):
        self.calls += 1
        return value

    @call_only_once
    def fail(self):
        raise KeyError("lost")

    @memoized_method
    def square(self, x, *, plus=0):
        self.calls += 1
        return x * x + plus


class SubThing(Thing):
    """Overrides a method and calls the overridden one."""

    @call_only_once
    def setup(self, value):
        return super().setup(value) + 1


def test_first_call_passes_and_second_raises():
    thing = Thing()
    assert thing.setup(3) == 3
    with pytest.raises(ConfigError, match=r"Thing.setup\(\) was called before"):
        thing.setup(3)
    assert thing.calls == 1


def test_once_is_counted_for_each_object():
    assert [Thing().setup(k) for k in range(2)] == [0, 1]


def test_overriding_method_may_call_the_overridden():
    assert SubThing().setup(3) == 4


def test_call_that_raised_counts_too():
    thing = Thing()
    with pytest.raises(KeyError):
        thing.fail()
    with pytest.raises(ConfigError, match="was called before"):
        thing.fail()


def test_once_is_kept_by_pickling():
    thing = Thing()
    thing.setup(3)
    with pytest.raises(ConfigError, match="was called before"):
        pickle.loads(pickle.dumps(thing)).setup(3)


def test_memoized_calls_once_for_each_argument():
    calls = []

    @memoized
    def square(x):
        calls.append(x)
        return x * x

    assert [square(k) for k in (2, 3, 2)] == [4, 9, 4]
    assert calls == [2, 3]


def test_memoized_method_calls_once_for_each_object_and_arguments():
    first, second = Thing(), Thing()
    assert [first.square(2), first.square(2), first.square(2, plus=1), second.square(2)] == [4, 4, 5, 4]
    assert (first.calls, second.calls) == (2, 1)


def test_memoized_method_does_not_keep_its_object_alive():
    thing = Thing()
    thing.square(2)
    reference = weakref.ref(thing)
    del thing
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize(("a", "expected"), [(3, [3, 3]), ((2, 3), [2, 3]), ([4, 5], [4, 5])])
def test_shape2d_takes_one_or_two_integers(a, expected):
    assert shape2d(a) == expected


@pytest.mark.parametrize("a", [(1, 2, 3), 1.5, "12", True, None, (1, 2.0)])
def test_shape2d_refuses_the_rest(a):
    with pytest.raises(ConfigError, match="is no two-dimensional shape"):
        shape2d(a)


@pytest.mark.parametrize(
    ("data_format", "expected"),
    [("NHWC", [1, 2, 3, 1]), ("channels_last", [1, 2, 3, 1]), ("NCHW", [1, 1, 2, 3]), ("channels_first", [1, 1, 2, 3])],
)
def test_shape4d_puts_ones_around(data_format, expected):
    assert shape4d((2, 3), data_format) == expected


@pytest.mark.parametrize("name", ["NHWC", "channels_last"])
def test_data_format_is_translated_both_ways(name):
    assert get_data_format(name) == "channels_last"
    assert get_data_format(name, keras_mode=False) == "NHWC"


def test_unknown_data_format_raises():
    with pytest.raises(ConfigError, match="data_format='HWC': wanted one of NCHW, NHWC"):
        get_data_format("HWC")
