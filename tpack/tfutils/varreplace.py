"""Change the result of ``get_variable`` in a block of model code, without touching the code: freeze, quantise, mask.

These custom getters act alike in every tower, on copies and shared variables, and in prediction. TensorFlow calls
getters outside of all name scopes; operations that are made here are in the scope in which the block began.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tower.context import add_model_variable
from tpack.tower.getters import custom_getter_scope
from tpack.utils.validation import check_arguments

__all__ = ["custom_getter_scope", "freeze_variables", "remap_variables"]


@contextmanager
@check_arguments
def remap_variables(fn: Callable[[tf.Variable], tf.Tensor | tf.Variable]) -> Iterator[None]:
    """Pass every variable that the block gets through a function, and give the model the result.

    Args:
        fn: takes a variable; returns it, or a tensor to use in its place.

    Example:
        with remap_variables(lambda var: quantize(var) if var.op.name.endswith("/W") else var):
            logits = model(image)
    """
    scope = _current_name_scope()

    def getter_and_function(getter: Callable[..., tf.Variable], *args: Any, **kwargs: Any) -> tf.Tensor | tf.Variable:
        variable = getter(*args, **kwargs)
        with _in_name_scope(scope):
            return fn(variable)

    with custom_getter_scope(getter_and_function):
        yield


@contextmanager
@check_arguments
def freeze_variables(stop_gradient: bool = True, skip_collection: bool = False) -> Iterator[None]:
    """Keep the trainable variables that the block gets from being trained; others keep their update operations.

    Args:
        stop_gradient: give the model a tensor without gradient in place of the variable. Code that gets the variable
            another way, such as weight decay over the trainable variables, can still train it.
        skip_collection: create the variables with ``trainable=False``, so that no optimizer sees them, in
            MODEL_VARIABLES. A variable that exists already stays trainable.

    Example:
        with freeze_variables(stop_gradient=False, skip_collection=True):
            features = backbone(image)
    """
    scope = _current_name_scope()

    def frozen_getter(
        getter: Callable[..., tf.Variable | tf.Tensor], *args: Any, **kwargs: Any
    ) -> tf.Variable | tf.Tensor:
        # None means trainable, as it does for tf.Variable.
        if kwargs.get("trainable") is False:
            return getter(*args, **kwargs)
        if skip_collection:
            kwargs["trainable"] = False
        value = getter(*args, **kwargs)
        if skip_collection:
            # In 16 bits the model gets a variable that is cast. What another block of this kind made is no variable.
            variable = getattr(value, "variable", value)
            if isinstance(variable, tf.compat.v2.Variable):
                add_model_variable(variable)
        with _in_name_scope(scope):
            return tf.stop_gradient(value, name="frozen") if stop_gradient else value

    with custom_getter_scope(frozen_getter):
        yield


def _current_name_scope() -> str:
    scope: str = tf.get_default_graph().get_name_scope()
    return scope


def _in_name_scope(scope: str) -> AbstractContextManager[Any]:
    context: AbstractContextManager[Any] = tf.name_scope(f"{scope}/") if scope else nullcontext()
    return context
