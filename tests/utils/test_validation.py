"""Arguments are returned in their plain type or refused by name, and messages print no data."""

import pathlib

import numpy as np
import pytest

from tpack.errors import ConfigError, WrongTypeError
from tpack.utils import validation
from tpack.utils.validation import (
    check_bool,
    check_choice,
    check_count,
    check_function,
    check_instance,
    check_instances,
    check_local_path,
    check_number,
    check_path,
    check_text,
    is_remote,
    shown,
)


class Owner:
    """Has arguments."""


@pytest.mark.parametrize("value", [1, 5, np.int32(5)])
def test_positive_integer_is_returned(value):
    found = check_count(Owner(), "size", value)
    assert found == value
    assert type(found) is int


def test_minimum_may_be_another():
    assert check_count(Owner(), "warmup", 0, 0) == 0
    with pytest.raises(ConfigError, match="Owner got warmup=-1: expected an integer of at least 0"):
        check_count(Owner(), "warmup", -1, 0)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, None, "3"])
def test_the_rest_is_refused(value):
    with pytest.raises(ConfigError, match="Owner got size=.*: expected an integer of at least 1"):
        check_count(Owner(), "size", value)


def test_largest_count_is_said():
    assert check_count("reduce", "towers", 8, 1, 8) == 8
    with pytest.raises(ConfigError, match="^reduce got towers=9: expected an integer from 1 to 8$"):
        check_count("reduce", "towers", 9, 1, 8)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), np.int64(3)])
def test_number_is_returned_in_its_plain_type(value):
    found = check_number(Owner, "scale", value, 0)
    assert found == value
    assert type(found) in (int, float)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -0.1, 1.5])
def test_number_outside_its_limits_is_refused(value):
    with pytest.raises(ConfigError, match="^Owner got scale=.*: expected a number of at least 0 and of at most 1$"):
        check_number(Owner(), "scale", value, 0, 1)


@pytest.mark.parametrize("value", ["1", None, True, 1j, [1.0]])
def test_what_is_no_number_is_of_the_wrong_type(value):
    with pytest.raises(WrongTypeError, match="expected a finite number$"):
        check_number(Owner(), "scale", value)


def test_lower_limit_may_be_left_out():
    assert check_number(Owner(), "seconds", 0.1, 0, is_low_allowed=False) == 0.1
    with pytest.raises(ConfigError, match="seconds=0: expected a number greater than 0"):
        check_number(Owner(), "seconds", 0, 0, is_low_allowed=False)


def test_boolean_is_one_of_two():
    assert check_bool(Owner(), "average", np.True_) is True
    assert check_bool(Owner(), "average", False) is False


@pytest.mark.parametrize("value", ["no", 0, 1, None])
def test_what_is_like_a_boolean_is_refused(value):
    with pytest.raises(WrongTypeError, match="^Owner got average=.*: expected True or False$"):
        check_bool(Owner(), "average", value)


def test_path_is_returned_as_text(tmp_path):
    assert check_path(Owner(), "directory", tmp_path) == str(tmp_path)
    assert check_path(Owner(), "directory", "a") == "a"


@pytest.mark.parametrize(
    ("value", "kind"), [(5, WrongTypeError), (None, WrongTypeError), ("", ConfigError), (b"a", WrongTypeError)]
)
def test_what_is_no_path_is_refused(value, kind):
    with pytest.raises(kind, match="^Owner got directory=.*: expected a path"):
        check_path(Owner(), "directory", value)


@pytest.mark.parametrize("value", [5, None, b"name", ""])
def test_what_is_no_text_is_refused(value):
    assert check_text(Owner(), "name", "a") == "a"
    with pytest.raises(ConfigError, match="^Owner got name=.*: expected text"):
        check_text(Owner(), "name", value)


@pytest.mark.parametrize("value", ["median", 1, np.zeros(2), None])
def test_choice_is_one_of_those_named(value):
    assert check_choice(Owner(), "op", "sum", ("sum", "mean")) == "sum"
    with pytest.raises(ConfigError, match="^Owner got op=.*: expected one of 'sum', 'mean'$"):
        check_choice(Owner(), "op", value, ("sum", "mean"))


def test_true_is_not_the_choice_one():
    with pytest.raises(ConfigError, match="order=True: expected one of 1, 2"):
        check_choice(Owner(), "order", True, (1, 2))


def test_function_is_what_can_be_called():
    assert check_function(Owner(), "func", len) is len
    with pytest.raises(WrongTypeError, match="func=5: expected a function of one argument"):
        check_function(Owner(), "func", 5, "a function of one argument")


def test_instance_is_of_its_class():
    owner = Owner()
    assert check_instance("main", "owner", owner, Owner) is owner
    with pytest.raises(WrongTypeError, match="^main got owner=the class Owner: expected an Owner$"):
        check_instance("main", "owner", Owner, Owner)
    with pytest.raises(WrongTypeError, match="expected an Owner; make_owner makes one"):
        check_instance("main", "owner", None, Owner, "an Owner; make_owner makes one")


def test_instances_become_a_list():
    owner = Owner()
    assert check_instances("main", "owners", (owner,), Owner) == [owner]
    assert check_instances("main", "owners", iter([owner]), Owner, least=1) == [owner]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("train_log/mnist", "train_log/mnist"),
        ("train_log/mnist:a/b", "train_log/mnist:a/b"),
        ("/log", "/log"),
        ("c:/log", "c:/log"),
        ("file:///log/a%20b", "/log/a b"),
        ("file://localhost/log", "/log"),
        ("FILE:/log", "/log"),
        (pathlib.PurePosixPath("file:///log"), "/log"),
    ],
)
def test_local_path_is_returned_as_a_path(value, path):
    assert check_local_path("main", "directory", value) == path


@pytest.mark.parametrize(
    "value",
    [
        "gs://bucket/log",
        "s3://b",
        "hdfs://host:9000/log",
        "memory://log",
        "file://host/log",
        "file://log",
        pathlib.PurePosixPath("gs://bucket/log"),
    ],
)
def test_remote_path_is_refused(value):
    with pytest.raises(ConfigError, match="^main got directory=.*: expected a path on this machine"):
        check_local_path("main", "directory", value)


@pytest.mark.parametrize("values", [None, "abc", {"a": 1}, 5])
def test_what_is_no_list_of_instances_is_refused(values):
    with pytest.raises(WrongTypeError, match="^main got owners=.*: expected a list of Owner$"):
        check_instances("main", "owners", values, Owner)


def test_wrong_entry_and_missing_entries_are_named():
    with pytest.raises(WrongTypeError, match=r"^main got owners\[1\]=5: expected an Owner$"):
        check_instances("main", "owners", [Owner(), 5], Owner)
    with pytest.raises(ConfigError, match="^main got owners with 0 entries: expected at least 1$"):
        check_instances("main", "owners", [], Owner, least=1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        ("a", "'a'"),
        ([1, 2], "[1, 2]"),
        (list(range(1000)), "a list of 1000"),
        ({"a": np.zeros(9)}, "a dict of 1"),
        (np.zeros((3, 4), np.float32), "an array of shape (3, 4) and dtype float32"),
        ([np.zeros(3)], "a list of 1"),
        (Owner, "the class Owner"),
        (Owner(), "an Owner"),
        (shown, "the function shown"),
        (pathlib.PurePosixPath("a/b"), "PurePosixPath('a/b')"),
    ],
)
def test_values_are_shown_without_their_data(value, text):
    assert shown(value) == text


def test_long_text_is_cut():
    assert len(shown("a" * 10**6)) == 100
    assert shown(["a" * 90, "b" * 90]) == "a list of 2"


def test_owner_may_be_text_a_class_or_an_object():
    assert [validation.owner_name(owner) for owner in ("main", Owner, Owner())] == ["main", "Owner", "Owner"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("s3://bucket/run", True),
        ("memory://run", True),
        ("file:///tmp/run", False),
        ("FILE:///tmp/run", False),
        ("train_log/run", False),
        ("C://run", False),
        ("s3://", False),
        (None, False),
    ],
)
def test_urls_are_told_from_paths(path, expected):
    assert is_remote(path) is expected
