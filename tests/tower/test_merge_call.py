"""One meeting of towers, called by hand."""

import functools
from collections import namedtuple

import pytest

from tpack.errors import TowerError, TowerMismatchError
from tpack.tower.merge_call import MergeCall, merge, part_of_tower

Pair = namedtuple("Pair", "first second")


def parts(merged, num_towers):
    return [part_of_tower(merged, index) for index in range(num_towers)]


def test_the_first_tower_s_function_gets_a_list_for_each_argument():
    seen = []

    def make(tower):
        return lambda *args: seen.append((tower, args))

    assert merge([MergeCall(make(k), (k, -k)) for k in range(3)]) is None
    assert seen == [(0, ([0, 1, 2], [0, -1, -2]))]


@pytest.mark.parametrize(
    ("merged", "expected"),
    [
        (None, [None, None]),
        ([1, 2], [1, 2]),
        (([1, 2], None), [(1, None), (2, None)]),
        (Pair([1, 2], [3, 4]), [Pair(1, 3), Pair(2, 4)]),
        ({"a": [1, 2], "b": ([3, 4],)}, [{"a": 1, "b": (3,)}, {"a": 2, "b": (4,)}]),
        ([[1], (2, 3)], [[1], (2, 3)]),
    ],
)
def test_each_tower_gets_its_entry_in_the_same_containers(merged, expected):
    assert parts(merge([MergeCall(lambda: merged, ())] * 2), 2) == expected


@pytest.mark.parametrize("merged", [1, [1], ([1, 2], 3), {"a": [1, 2, 3]}])
def test_a_result_without_an_entry_for_each_tower_is_an_error(merged):
    with pytest.raises(
        TowerError,
        match=r"<lambda>, the function of merge_call, returned .*: expected a list with one entry for each of 2 tower",
    ):
        merge([MergeCall(lambda: merged, ())] * 2)


class Callable:
    """What has no code of its own."""

    def __call__(self, values):
        return values

    def method(self, values):
        return values


@pytest.mark.parametrize(
    "make",
    [
        lambda: lambda values: values,
        Callable,
        lambda: Callable().method,
        lambda: functools.partial(lambda factor, values: [factor * value for value in values], 1),
        lambda: functools.partial(functools.partial(Callable().method)),
        lambda: sorted,
    ],
)
def test_functions_of_the_same_code_are_the_same(make):
    assert parts(merge([MergeCall(make(), (k,)) for k in range(3)]), 3) == [0, 1, 2]


@pytest.mark.parametrize(
    ("other", "args", "what"),
    [
        (lambda values: values, (1,), r"<lambda> of .*test_merge_call.py:\d+ with 1 argument"),
        (sorted, (1,), r"builtins.sorted with 1 argument"),
        (Callable(), (1,), "test_merge_call.Callable with 1 argument"),
        (Callable().method, (1, 2), r"Callable.method of .* with 2 argument"),
    ],
)
def test_other_functions_or_arguments_are_an_error_that_names_both(other, args, what):
    with pytest.raises(
        TowerMismatchError, match=rf"tower 0 called merge_call with .*Callable.method.*, tower 1 with .*{what}"
    ):
        merge([MergeCall(Callable().method, (1,)), MergeCall(other, args)])


def test_a_wrapped_function_is_what_it_wraps():
    def wrap(fn):
        @functools.wraps(fn)
        def wrapper(values):
            return fn(values)

        return wrapper

    def first(values):
        return values

    def second(values):
        return values

    assert merge([MergeCall(wrap(first), (1,)), MergeCall(wrap(functools.partial(first)), (2,))]) == [1, 2]
    with pytest.raises(TowerMismatchError, match=r"first of .*tower 1 with .*second of"):
        merge([MergeCall(wrap(first), (1,)), MergeCall(wrap(second), (2,))])
