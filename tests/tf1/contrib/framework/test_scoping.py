"""Arguments in force for a block; what 1.15 did is written down here."""

import pytest

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib.framework.scoping import (
    add_arg_scope,
    arg_scope,
    arg_scope_func_key,
    arg_scoped_arguments,
    current_arg_scope,
    has_arg_scope,
)


@add_arg_scope
def layer(inputs, size=1, *, name=None):
    return inputs, size, name


@add_arg_scope
def other(inputs, size=2):
    return inputs, size


def test_an_inner_block_adds_to_an_outer_one_and_a_call_wins():
    with arg_scope([layer, other], size=3):
        with arg_scope([layer], name="inner", size=4):
            assert layer(0) == (0, 4, "inner")
            assert layer(0, size=5) == (0, 5, "inner")
            assert other(0) == (0, 3)
        assert layer(0) == (0, 3, None)
    assert layer(0) == (0, 1, None)
    assert current_arg_scope() == {}


def test_a_scope_is_used_again_and_is_in_force_alone():
    with arg_scope([layer], size=3) as scope:
        assert scope == {arg_scope_func_key(layer): {"size": 3}}
    with arg_scope([other], size=9), arg_scope(scope):
        assert (layer(0), other(0)) == ((0, 3, None), (0, 2))


def test_a_block_that_fails_ends_its_scope():
    with pytest.raises(KeyError), arg_scope([layer], size=3):
        raise KeyError
    assert layer(0) == (0, 1, None)


def test_arguments_that_a_scope_can_set():
    assert has_arg_scope(layer)
    assert not has_arg_scope(len)
    assert arg_scoped_arguments(layer) == ("size", "name")
    assert layer.__name__ == "layer"


def test_what_is_no_scope_is_refused():
    with pytest.raises(ConfigError, match="decorated with @add_arg_scope"), arg_scope([len], size=1):
        pass
    with pytest.raises(ConfigError, match="decorated with @add_arg_scope"):
        arg_scoped_arguments(len)
    with pytest.raises(WrongTypeError, match="a list of functions"), arg_scope(layer, size=1):
        pass
    with pytest.raises(ConfigError, match="expected one"), arg_scope({}, size=1):
        pass
