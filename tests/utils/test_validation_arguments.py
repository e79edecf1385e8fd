"""What an annotation says is what is accepted, and a message names the argument."""

from __future__ import annotations

import enum
import math
import pathlib
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

from tpack.dataflow.base import DataFlow
from tpack.errors import ConfigError, WrongTypeError
from tpack.utils.validation import FloatOrNan, check_arguments

if TYPE_CHECKING:
    import os
    from os import PathLike

    from numpy.typing import ArrayLike


class Color(enum.Enum):
    """A class to be an instance of."""

    RED = 1


@check_arguments
class Everything:
    """Has an argument of each kind."""

    def __init__(
        self,
        count: int = 1,
        scale: float = 1.0,
        *,
        flag: bool = True,
        name: str = "a",
        path: str | os.PathLike[str] = "a",
        maybe: int | None = None,
        color: Color = Color.RED,
        func: Callable[[int], int] = abs,
        names: Sequence[str] = (),
        sizes: int | Sequence[int] = 1,
        pair: tuple[float, float] = (0, 1),
        pairs: Sequence[str] | Sequence[tuple[str, int]] = (),
        table: Mapping[str, int] | None = None,
        things: Iterable[object] = (),
        choice: Literal["a", 1] = "a",
        array: np.ndarray | None = None,
        number_like: ArrayLike = 0,
        fill: FloatOrNan | Sequence[FloatOrNan] = 0.0,
        anything: Any = None,
    ) -> None:
        self.arguments = locals()


RIGHT = [
    {"count": 3},
    {"count": np.int64(3)},
    {"scale": 1},
    {"scale": np.float32(1)},
    {"scale": math.inf},
    {"flag": np.False_},
    {"name": ""},
    {"path": pathlib.Path("a")},
    {"maybe": None},
    {"maybe": 3},
    {"func": Color},
    {"names": ["a", "b"]},
    {"names": np.array(["a"])},
    {"sizes": [1, 2]},
    {"sizes": np.int32(2)},
    {"pair": [1, 2.5]},
    {"pairs": ["a"]},
    {"pairs": [("a", 1), ["b", 2]]},
    {"table": {"a": 1}},
    {"things": iter([1])},
    {"choice": 1},
    {"array": np.zeros(2)},
    {"number_like": "not known when this runs"},
    {"fill": math.nan},
    {"fill": [math.nan, 1]},
    {"anything": object()},
]


@pytest.mark.parametrize("arguments", RIGHT, ids=lambda arguments: next(iter(arguments)))
def test_what_an_annotation_says_is_accepted(arguments):
    ((name, value),) = arguments.items()
    assert Everything(**arguments).arguments[name] is value


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("count", "3", "an integer"),
        ("count", 3.0, "an integer"),
        ("count", True, "an integer"),
        ("count", None, "an integer"),
        ("scale", "1", "a number"),
        ("scale", math.nan, "a number"),
        ("scale", False, "a number"),
        ("flag", "no", "True or False"),
        ("flag", 0, "True or False"),
        ("name", 5, "text"),
        ("path", 5, "a path"),
        ("maybe", "3", "an integer or None"),
        ("color", 1, "a Color"),
        ("color", Color, "a Color"),
        ("func", 5, "a function"),
        ("names", "cost", "a list of text"),
        ("names", {"cost": 1}, "a list of text"),
        ("sizes", "2", "an integer or a list of integers"),
        ("pair", (1, 2, 3), "a tuple of 2"),
        ("table", [1], "a dict of integers or None"),
        ("things", "abc", "an iterable"),
        ("choice", "b", "one of 'a', 1"),
        ("choice", True, "one of 'a', 1"),
        ("choice", [], "one of 'a', 1"),
        ("array", [1], "an array or None"),
        ("fill", "0", "a number or a list of numbers"),
    ],
)
def test_the_rest_is_refused(name, value, wanted):
    with pytest.raises(ConfigError) as caught:
        Everything(**{name: value})
    assert str(caught.value).startswith(f"Everything got {name}=")
    assert str(caught.value).endswith(f": expected {wanted}")
    assert isinstance(caught.value, WrongTypeError) == (name != "choice")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["a", 5]}, r"names\[1\]=5: expected text"),
        ({"sizes": [1, 2.5]}, r"sizes\[1\]=2.5: expected an integer"),
        ({"pair": ["a", 1]}, r"pair\[0\]='a': expected a number"),
        ({"table": {"a": "b"}}, r"table\['a'\]='b': expected an integer"),
        ({"pairs": [("a", "b")]}, r"pairs\[0\]="),
    ],
)
def test_what_is_inside_is_checked(arguments, message):
    with pytest.raises(WrongTypeError, match=message):
        Everything(**arguments)


def test_missing_and_unknown_arguments_are_for_python():
    with pytest.raises(TypeError, match="no_such"):
        Everything(no_such=1)


def test_default_is_right_whatever_it_is():
    @check_arguments
    def train(steps: int = None):  # noqa: RUF013
        return steps

    assert train() is None
    assert train(None) is None
    # Python 3.10 adds "or None" to the annotation of such a parameter.
    with pytest.raises(WrongTypeError, match="^train got steps='1': expected an integer( or None)?$"):
        train("1")


def test_many_arguments_are_each_checked():
    @check_arguments
    def add(*numbers: float, **weights: float):
        return sum(numbers) + sum(weights.values())

    assert add(1, 2.5, a=3) == 6.5
    with pytest.raises(WrongTypeError, match=r"^add got numbers\[1\]='b': expected a number$"):
        add(1, "b")
    with pytest.raises(WrongTypeError, match="^add got a='b': expected a number$"):
        add(1, a="b")


def test_subclass_is_named():
    class Special(Everything):
        """Has no constructor of its own."""

    with pytest.raises(WrongTypeError, match="^Special got count='1'"):
        Special("1")


@check_arguments
@dataclass(frozen=True)
class Options:
    """A dataclass whose fields are checked."""

    size: int
    names: tuple[str, ...] = ()


def test_dataclass_is_checked_and_pickles():
    options = Options(3, ("a",))
    assert pickle.loads(pickle.dumps(options)) == options
    with pytest.raises(WrongTypeError, match=r"Options got names\[0\]=1: expected text"):
        Options(3, (1,))


def test_function_keeps_its_name_and_signature():
    @check_arguments
    def scale_by(factor: float, path: str | PathLike[str] = "a") -> float:
        """Scale."""
        return factor

    assert scale_by.__name__ == "scale_by"
    assert scale_by.__doc__ == "Scale."
    assert scale_by(2, path=5) == 2


def test_long_sequences_are_not_looked_through():
    assert Everything(names=["a"] * 1000 + [5]).arguments["names"][-1] == 5


def test_a_noun_with_a_way_out_has_a_plural():
    @check_arguments
    def join(flows: Sequence[DataFlow]) -> None:
        raise AssertionError(flows)

    with pytest.raises(WrongTypeError, match="expected a list of DataFlows; as_dataflow makes one of a list, arrays"):
        join(3)
