"""Functions that share the long signatures of TensorFlow 1: each signature is written once."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any


def parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """Return a parameter for the ``after`` of `like`."""
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


def like(
    template: Callable[..., Any],
    *,
    without: str = "",
    after: Mapping[str, Mapping[str, Any]] | None = None,
    **defaults: Any,
) -> Callable[[Callable[..., Any]], Any]:
    """Make a decorator that gives a function the signature of another one.

    The function gets all arguments by name, those not given with their defaults: it lists the ones it uses and takes
    the others as ``**given``, those of a ``**kwargs`` of the template among them.

    Args:
        template: the function or class whose parameters, annotations and defaults these are.
        without: parameters that are left out, with blanks between.
        after: {parameter: {name: default}} of parameters that follow one of the template. A `parameter` in place of the
            default says the annotation too; those after ``""`` come first.
        **defaults: defaults that differ.

    Example:
        @like(convolution, without="conv_dims", data_format="NHWC")
        def convolution1d(**given):
            return convolution(**given, conv_dims=1)
    """
    given = dict(after or {})
    parameters = list(map(_made, given.pop("", {}).items()))
    for part in inspect.signature(template).parameters.values():
        if part.name not in without.split():
            parameters.append(part.replace(default=defaults.get(part.name, part.default)))
        parameters += map(_made, given.get(part.name, {}).items())

    def decorate(function: Callable[..., Any]) -> Any:
        signature = inspect.signature(function).replace(parameters=parameters)
        takes_others = "kwargs" in signature.parameters

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            others = bound.arguments.pop("kwargs", {}) if takes_others else {}
            return function(**bound.arguments, **others)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


def _made(item: tuple[str, Any]) -> inspect.Parameter:
    name, default = item
    if isinstance(default, inspect.Parameter):
        return default
    return parameter(name, Any if default is None else type(default), default)
