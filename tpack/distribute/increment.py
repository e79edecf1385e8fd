"""Count up a variable, once for all towers."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.current import get_tower_context
from tpack.errors import StrategyError


def increment_var(v: Any, amount: Any = 1) -> Any:
    """Add to a variable once, however many towers do it.

    Args:
        v: a variable, such as the global step: mirrored or not.
        amount: what to add.

    Returns:
        The operation, the same in all towers.

    Shapes:
        ``amount`` is a scalar, or of the variable's shape.

    Raises:
        StrategyError: This is a cross-tower context.

    Source:
        The function of the same name in the seed ``distribute``.
    """
    context = get_tower_context()
    if context is None:
        raise StrategyError("increment_var is called in a tower; in a cross-tower context, use update()")

    def add(variable: Any) -> Any:
        return tf.assign_add(variable, amount)

    def merge(strategy: Any, variable: Any) -> Any:
        return strategy.group(strategy.update(variable, add))

    return context.merge_call(merge, v)
