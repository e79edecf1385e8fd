"""Functions that make a layer and call it at once: ``dense(inputs, ...)`` is ``Dense(...)(inputs)``.

A function has the arguments of its class behind the input, and ``reuse``. Its ``name`` is that of the variable scope,
taken as it is: two calls with one name want the same variables, which ``reuse`` has to allow.
"""

import inspect
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.layers.base import Layer

_FIRST = inspect.Parameter("inputs", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Any)
_REUSE = inspect.Parameter("reuse", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Any)


def layer_function(name: str, layer: type[Layer], *, has_variables: bool = True) -> Callable[..., tf.Tensor]:
    """Return the function of a layer's class.

    Args:
        name: of the function.
        layer: the class.
        has_variables: whether the function takes ``reuse``.
    """
    parameters = [p for p in _parameters_of(layer) if p.kind is not p.VAR_KEYWORD]
    signature = inspect.Signature([_FIRST, *parameters, *([_REUSE] if has_variables else [])])
    known = set(signature.parameters)

    def function(*args: Any, **kwargs: Any) -> tf.Tensor:
        given = dict(zip(signature.parameters, args, strict=False), **kwargs)
        if len(given) != len(args) + len(kwargs) or not given.keys() <= known or "inputs" not in given:
            # It says which argument is wrong.
            signature.bind(*args, **kwargs)
        inputs = given.pop("inputs")
        if has_variables:
            given.update(_reuse=given.pop("reuse", None), _scope=given.get("name"))
        return layer(**given)(inputs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = layer.__module__
    function.__doc__ = f"""Apply `{layer.__name__}`, whose arguments these are.

    Args:
        inputs: the input.
        *args: the arguments of the class, in its order{"; then ``reuse``, as for a variable scope" * has_variables}.
        **kwargs: the same by name.
    """
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _parameters_of(layer: type[Layer]) -> list[inspect.Parameter]:
    """Return the parameters of a class; before Python 3.11 its signature is that of ``__new__``, which takes any."""
    shown = vars(layer).get("__signature__")
    _, *parameters = inspect.signature(layer.__init__).parameters.values()
    return list(parameters if shown is None else shown.parameters.values())
