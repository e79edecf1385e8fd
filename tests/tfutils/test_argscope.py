"""Default arguments of layers: who gets them, who wins, and where they end."""

import functools
import threading
import types
from contextvars import copy_context
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError, WrongTypeError
from tpack.tfutils.argscope import (
    argscope,
    canonical_arguments,
    complete_arguments,
    enable_argscope_for_function,
    enable_argscope_for_module,
    get_arg_scope,
)


@enable_argscope_for_function
def layer(x: Any, size: int = 1, *, color: str = "red") -> tuple[Any, int, str]:
    """Return what it got."""
    return x, size, color


@enable_argscope_for_function
def other(x: Any, size: int = 1) -> tuple[Any, int]:
    return x, size


layer.__argument_aliases__ = {"width": "size"}  # type: ignore[attr-defined]


def test_arguments_are_in_force_in_the_block_only() -> None:
    with argscope(layer, size=5):
        assert layer(0) == (0, 5, "red")
        assert other(0) == (0, 1)
    assert layer(0) == (0, 1, "red")
    assert layer.__doc__ == "Return what it got."


def test_a_call_wins_over_the_inner_block_and_that_over_the_outer() -> None:
    with argscope([layer, other], size=5), argscope(layer, size=6, color="blue"):
        assert layer(0) == (0, 6, "blue")
        assert layer(0, 7) == (0, 7, "blue")
        assert layer(0, size=7) == (0, 7, "blue")
        assert layer(0, color="green") == (0, 6, "green")
        assert other(0) == (0, 5)


def test_older_names_mean_the_same_in_block_and_call() -> None:
    with argscope(layer, width=5):
        assert layer(0) == (0, 5, "red")
        assert layer(0, size=6) == (0, 6, "red")
        assert layer(0, width=6) == (0, 6, "red")
        assert layer(0, 6) == (0, 6, "red")
    with argscope(layer, size=5):
        assert layer(0, width=6) == (0, 6, "red")


def test_block_ends_with_an_exception_too() -> None:
    with pytest.raises(KeyError), argscope(layer, size=5):
        raise KeyError
    assert get_arg_scope() == {}


def test_arg_scope_can_be_read_and_is_a_copy() -> None:
    with argscope(layer, width=5):
        got = get_arg_scope()
        assert got["layer"] == {"size": 5}
        assert got["other"] == {}
        got["layer"]["size"] = 6
        assert layer(0) == (0, 5, "red")


def test_a_thread_sees_the_block_in_a_copy_of_the_context_only() -> None:
    seen = []
    with argscope(layer, size=5):
        context = copy_context()
        for run in (lambda function: function(), context.run):
            thread = threading.Thread(target=run, args=[lambda: seen.append(layer(0))])
            thread.start()
            thread.join()
    assert seen == [(0, 1, "red"), (0, 5, "red")]


def test_unknown_argument_lists_near_names() -> None:
    with pytest.raises(ConfigError, match="other has no argument 'color'"), argscope([layer, other], color="blue"):
        pass
    with pytest.raises(ConfigError, match="layer has no argument 'colour'; near names: color"):
        layer(0, colour="blue")


def test_argument_under_two_names_is_refused() -> None:
    with pytest.raises(ConfigError, match="layer got 'size' under two names"):
        layer(0, size=1, width=2)


def test_only_layers_are_taken() -> None:
    with pytest.raises(ConfigError, match="argscope got layers=the function len: expected layers"), argscope(len, x=1):
        pass
    with pytest.raises(WrongTypeError, match="^enable_argscope_for_function got func="):
        enable_argscope_for_function(3)  # type: ignore[type-var]


def test_functions_of_any_keywords_take_any() -> None:
    def free(x: Any, **kwargs: Any) -> Any:
        return kwargs

    assert canonical_arguments(free, {"a": 1}) == {"a": 1}
    # A built-in without a signature cannot be asked.
    assert canonical_arguments(dict.update, {"a": 1}) == {"a": 1}
    assert complete_arguments(free, [1], {"b": 2}) == {"b": 2}


def test_every_public_function_of_a_module_is_enabled() -> None:
    module = types.ModuleType("layers")

    def dense(x: Any, units: int = 1, name: str | None = None) -> Any:
        return x * units

    module.dense, module._private, module.number = dense, dense, 3  # type: ignore[attr-defined]
    enable_argscope_for_module(module)
    enabled = module.dense
    enable_argscope_for_module(module)
    with argscope(module.dense, units=4):
        assert module.dense(2) == 8
    assert module.dense is enabled
    assert module._private is dense


def test_what_a_module_cannot_give_is_left_out() -> None:
    class Broken(types.ModuleType):
        def __dir__(self) -> list[str]:
            return ["dense", "missing", "needs_more"]

        def __getattr__(self, name: str) -> Any:
            raise ImportError("another package") if name == "needs_more" else AttributeError(name)

    def dense(x: Any, units: int = 1) -> Any:
        return x * units

    module = Broken("layers")
    module.dense = dense  # type: ignore[attr-defined]
    with captured_log() as lines:
        enable_argscope_for_module(module)
    with argscope(module.dense, units=4):
        assert module.dense(2) == 8
    assert [line for line in lines if "layers.needs_more cannot be loaded" in line]


def test_a_module_that_cannot_be_loaded_is_an_error() -> None:
    class Unloadable(types.ModuleType):
        def __dir__(self) -> list[str]:
            raise ImportError("no Keras")

    with pytest.raises(ConfigError, match="cannot load layers: no Keras"):
        enable_argscope_for_module(Unloadable("layers"))
    with pytest.raises(ConfigError, match="enable_argscope_for_module got module='layers': expected"):
        enable_argscope_for_module("layers")  # type: ignore[arg-type]


def test_a_wrapper_takes_what_it_takes_and_not_what_it_shows() -> None:
    def inner(x: Any, size: int = 1) -> Any:
        return x, size

    @functools.wraps(inner)
    def padded(x: Any, *args: Any, padding: str = "same", **kwargs: Any) -> Any:
        return (*inner(x, *args, **kwargs), padding)

    @functools.wraps(inner)
    def named(x: Any, units: int = 3) -> Any:
        return inner(x, units)

    wrapped, strict = enable_argscope_for_function(padded), enable_argscope_for_function(named)
    assert wrapped(1, padding="valid") == (1, 1, "valid")
    with argscope(wrapped, padding="valid", size=5):
        assert wrapped(1) == (1, 5, "valid")
        assert wrapped(1, 2) == (1, 2, "valid")
    with argscope(strict, units=7):
        assert strict(1) == (1, 7)
        assert strict(1, 2) == (1, 2)
    with pytest.raises(ConfigError, match="has no argument 'size'"):
        strict(1, size=2)
    assert wrapped.symbolic_function is padded  # type: ignore[attr-defined]


def test_shapes_are_logged_by_name_in_the_current_scope(graph: Any) -> None:
    def double(x: Any, name: str | None = None) -> Any:
        return tf.concat([x, x], 0, name=name)

    logging, silent = enable_argscope_for_function(double), enable_argscope_for_function(double, log_shape=False)
    x = tf.zeros([2])
    with captured_log() as lines:
        logging(x)
        logging(x, name="a")
        with tf.variable_scope("s"):
            logging(x, name="a")
            silent(x, name="b")
    assert lines == [f"{'a':<20} [2] --> [4]", f"{'s/a':<20} [2] --> [4]"]
