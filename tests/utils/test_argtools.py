"""Shapes in short, mapped arguments, and calls and lines that happen once."""

import pickle
import uuid

import numpy as np
import pytest

from tpack.errors import ConfigError
from tpack.utils.argtools import call_only_once, execute_only_once, get_data_format, log_once, map_arg, shape2d, shape4d


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


def test_mapped_arguments_go_through_their_functions():
    @map_arg(size=shape2d, name=str.upper)
    def crop(image, size, *rest, name="x", **options):
        """Crop."""
        return image, size, rest, name, options

    assert crop("i", 3) == ("i", [3, 3], (), "x", {})
    assert crop(image="i", size=(1, 2), name="y", other=4) == ("i", [1, 2], (), "Y", {"other": 4})
    assert crop("i", 3, 5, 6) == ("i", [3, 3], (5, 6), "x", {})
    assert crop.__doc__ == "Crop."
    with pytest.raises(TypeError, match="size"):
        crop("i")


def test_only_arguments_that_exist_can_be_mapped():
    with pytest.raises(ConfigError, match="crop has no argument 'sise' to map"):

        @map_arg(sise=shape2d)
        def crop(size):
            return size


@pytest.mark.parametrize(("a", "expected"), [(3, [3, 3]), ((2, 3), [2, 3]), ([4, 5], [4, 5])])
def test_shape2d_takes_one_or_two_integers(a, expected):
    assert shape2d(a) == expected


def test_shape2d_returns_plain_integers():
    assert [type(size) for size in shape2d(np.int64(3)) + shape2d([np.int32(4), 5])] == [int] * 4


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
    with pytest.raises(ConfigError, match="data_format='HWC': expected one of NCHW, NHWC"):
        get_data_format("HWC")


def test_each_line_is_executed_once():
    first = [execute_only_once() for _ in range(3)]
    second = [execute_only_once() for _ in range(3)]
    assert first == second == [True, False, False]


@pytest.mark.parametrize(("func", "mark"), [("info", "] "), ("warn", "WRN "), ("error", "ERR ")])
def test_message_is_logged_once_at_the_callers_place(func, mark, capsys):
    message = f"seen {uuid.uuid4()}"
    for _ in range(3):
        log_once(message, func)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(mark + message)
    assert "@test_argtools.py:" in line


def test_unknown_level_raises():
    with pytest.raises(ConfigError, match="func='shout': expected one of debug, info"):
        log_once("a", "shout")
