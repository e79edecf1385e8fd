"""The block ``with strategy.scope():``, in which a strategy is current and makes the variables."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.contexts import CrossTowerMode, entered, require_distribution_strategy_scope
from tpack.distribute.layer_state import with_layer_state
from tpack.distribute.update_context import get_update_device
from tpack.tower.context import get_current_tower_context
from tpack.tower.getters import custom_getter_scope
from tpack.utils.once import log_once


@contextmanager
def current_strategy(strategy: Any, create_variable: Callable[..., Any], default_device: Any = None) -> Iterator[Any]:
    """Make a strategy the current one, and its cross-tower context the current context.

    Args:
        strategy: the strategy.
        create_variable: a variable creator, ``create_variable(next_creator, **kwargs)``.
        default_device: a device for what the block builds, or None.

    Yields:
        The strategy.

    Shapes:
        No tensors.

    Raises:
        StrategyError: In the block, a variable is created where another strategy is current.

    Source:
        The seed ``distribute``.
    """

    def create(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        require_distribution_strategy_scope(strategy)
        if get_update_device() is not None or _is_shared_by_towers():
            # What an optimizer makes where it updates one component, such as a slot, is of that device alone. What one
            # tower makes for all, such as the state of moving summaries, is changed by that tower alone.
            return next_creator(**with_resource(kwargs))
        return create_variable(next_creator, **with_layer_state(with_resource(kwargs)))

    with ExitStack() as blocks:
        blocks.enter_context(entered(CrossTowerMode(strategy)))
        blocks.enter_context(custom_getter_scope(_without_partitioner))
        blocks.enter_context(tf.variable_creator_scope(create))
        if default_device:
            blocks.enter_context(tf.device(default_device))
        yield strategy


def _is_shared_by_towers() -> bool:
    tower = get_current_tower_context()
    return tower is not None and tower.recorder.is_paused


def with_resource(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a creator's arguments for a resource variable; what Keras makes is one, and does not say so."""
    return {**kwargs, "use_resource": True} if "use_resource" in kwargs else kwargs


def _without_partitioner(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if kwargs.pop("partitioner", None) is not None:
        log_once("Variables are not partitioned under a distribution strategy.", "warning")
    return getter(*args, **kwargs)
