"""Signatures that functions share."""

import inspect

import pytest

from tpack.tf1.signatures import like, parameter


def template(x: int, size: int, name: str = "t", *, last: bool = False) -> int:
    """Do nothing."""
    return x + size + len(name) + last


@like(template, without="size", name="mine")
def shorter(x, **given) -> tuple:
    """Be shorter."""
    return x, given


def test_a_signature_is_that_of_the_template_but_for_what_is_said():
    assert str(inspect.signature(shorter)) == "(x: int, name: str = 'mine', *, last: bool = False) -> tuple"
    assert (shorter.__name__, shorter.__doc__) == ("shorter", "Be shorter.")


def test_parameters_are_added():
    longer = like(template, after={"size": {"y": 1, "z": parameter("z", str | None, None)}}, without="last")(shorter)
    text = "(x: int, size: int, y: int = 1, z: str | None = None, name: str = 't') -> tuple"
    assert str(inspect.signature(longer)) == text


def test_a_function_gets_all_arguments_by_name():
    assert shorter(1) == (1, {"name": "mine", "last": False})
    assert shorter(x=1, last=True) == shorter(1, "mine", last=True) == (1, {"name": "mine", "last": True})


def test_other_arguments_are_an_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        shorter(1, size=2)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        shorter()
