"""Which arguments a function takes, however it is made."""

import functools

import pytest

from tpack.estimator.inputs import call_with_accepted, required_arguments, takes_argument


def plain(features, labels=None, *, mode="train"):
    return features, labels, mode


class Model:
    def __call__(self, features, params):
        return features, params

    def method(self, features, config=None):
        return features, config


@pytest.mark.parametrize(
    ("fn", "taken", "required"),
    [
        (plain, {"features", "labels", "mode"}, ["features"]),
        (functools.partial(plain, mode="eval"), {"features", "labels"}, ["features"]),
        (functools.partial(plain, 1), {"labels", "mode"}, []),
        (Model(), {"features", "params"}, ["features", "params"]),
        (Model().method, {"features", "config"}, ["features"]),
        (lambda features, **others: others, {"features", "labels", "mode", "params", "config"}, ["features"]),
        (lambda *features: features, set(), []),
        (lambda: 0, set(), []),
    ],
)
def test_arguments_of_functions(fn, taken, required):
    assert {name for name in ("features", "labels", "mode", "params", "config") if takes_argument(fn, name)} == taken
    assert required_arguments(fn) == required


def test_only_what_is_taken_is_given():
    assert call_with_accepted(plain, {"labels": 2, "params": 3}, features=1) == (1, 2, "train")
    assert call_with_accepted(Model(), {"labels": 2, "params": 3}, features=1) == (1, 3)
    assert call_with_accepted(lambda **all_of_them: all_of_them, {"a": 1}, b=2) == {"a": 1, "b": 2}
