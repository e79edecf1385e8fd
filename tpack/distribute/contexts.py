"""Where the current thread is: in a tower, or across the towers of a distribution strategy.

There are two kinds of modes. In a *tower context* code builds one tower; in a *cross-tower context* it builds what all
towers of a strategy share. They are entries of the stack of `tpack.tower.context`, together with the towers of
trainers.
With nothing on the stack the mode is the default tower's, of the default strategy.

This module holds the stack's side and the checks of both kinds; what users call is in `tpack.distribute.current`.

The strategy's side of a tower: which tower this is, and the way back to all towers.

This is what `get_tower_context` returns. A tower of a trainer, and one of a strategy that builds several, is a
`tpack.tower.TowerContext` as well, which looks after scopes, names and collections.

On which device a strategy updates a variable now, inside `update` and `update_non_slot`.

The block ``with strategy.scope():``, in which a strategy is current and makes the variables.

What becomes of the state of Keras layers, which say nothing of how it is kept in several towers.

A batch normalisation of Keras assigns to its moving averages wherever it is called. In a strategy's tower they are made
local to towers, as those of tpack's own layer are; so is the state of random numbers.
"""

import contextvars
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.compat import current_device
from tpack.errors import StrategyError
from tpack.tower.context import TowerContext as Tower
from tpack.tower.context import context_stack, get_current_tower_context
from tpack.tower.devices import device_key
from tpack.tower.getters import custom_getter_scope
from tpack.utils.argtools import log_once

_current: contextvars.ContextVar[Any] = contextvars.ContextVar("tpack_update_device", default=None)


class CrossTowerMode(NamedTuple):
    """In the cross-tower context of a strategy."""

    strategy: Any


class InTowerMode(NamedTuple):
    """In a tower of a strategy that has no `tpack.tower.TowerContext`."""

    tower_context: Any


@contextmanager
def entered(mode: CrossTowerMode | InTowerMode) -> Iterator[None]:
    """Be in a mode for a block."""
    stack = context_stack()
    stack.append(mode)
    try:
        yield
    finally:
        stack.pop()


def current_mode() -> Any:
    """Return the mode of this graph and thread: of the two kinds above, a trainer's or strategy's tower, or None."""
    stack = context_stack()
    return stack[-1] if stack else None


def strategy_of(mode: Any) -> Any:
    """Return the strategy of a mode; None for the default one's tower, and in a tower that no strategy has seen yet."""
    if isinstance(mode, CrossTowerMode):
        return mode.strategy
    context = tower_context_of(mode)
    return None if context is None else context.distribution_strategy


def tower_context_of(mode: Any) -> Any:
    """Return the strategy's tower context of a mode, or None where there is none (yet)."""
    if isinstance(mode, Tower):
        return mode.strategy_context
    return mode.tower_context if isinstance(mode, InTowerMode) else None


def require_distribution_strategy_scope(strategy: Any) -> None:
    """Check that a strategy is the current one, in either kind of context.

    Shapes:
        No tensors.

    Raises:
        StrategyError: No strategy is current, or another one.

    Source:
        The seed ``distribute``.
    """
    mode = current_mode()
    current = strategy_of(mode)
    if current is strategy or (mode is None and strategy.is_default):
        return
    if mode is None or (current is not None and current.is_default):
        raise StrategyError(f'need to be inside "with distribution_strategy.scope()" for {strategy!r}')
    raise StrategyError(f"mixing different DistributionStrategy objects: {current or mode!r} is not {strategy!r}")


def require_cross_tower_context(strategy: Any) -> None:
    """Check that the cross-tower context of a strategy is the current one.

    Shapes:
        No tensors.

    Raises:
        StrategyError: No strategy is current, or another one, or this is a tower.

    Source:
        The seed ``distribute``.
    """
    require_distribution_strategy_scope(strategy)
    if not isinstance(current_mode(), CrossTowerMode):
        raise StrategyError(
            f"this method of {strategy!r} requires being in cross-tower context, and this is a tower: use "
            "get_tower_context().merge_call()"
        )


def require_tower_context(tower_context: Any) -> None:
    """Check that a tower context is the current one.

    Args:
        tower_context: a `tpack.distribute.TowerContext`.

    Shapes:
        No tensors.

    Raises:
        StrategyError: This is a cross-tower context, another tower, or a tower of another strategy.

    Source:
        The seed ``distribute``.
    """
    mode = current_mode()
    strategy = tower_context.distribution_strategy
    # The default strategy has one tower context, so it needs no comparison.
    if tower_context_of(mode) is tower_context or (mode is None and strategy.is_default):
        return
    if isinstance(mode, CrossTowerMode):
        raise StrategyError(f"need to be inside `call_for_each_tower()`, and this is {mode.strategy!r} across towers")
    if strategy_of(mode) is strategy:
        raise StrategyError(f"mismatching tower context: {tower_context_of(mode)!r} is not {tower_context!r}")
    raise StrategyError(
        f"mismatching DistributionStrategy objects: {strategy_of(mode) or mode or 'the default one'!r} is not "
        f"{strategy!r}"
    )


class TowerContext:
    """One tower of a strategy, as seen from inside; this base class is that of a single tower.

    As a block it makes itself the current tower context. The class of the same name in `tpack.tower` is a tower as it
    is built, with its scopes and variables, which `get_current_tower_context` returns. In a strategy's tower both are
    current.

    Args:
        distribution_strategy: the strategy.
        tower_id: which of its towers this is, from 0 up.

    Source:
        The class of the same name in the seed ``distribute``.
    """

    def __init__(self, distribution_strategy: Any, tower_id: int) -> None:
        self._distribution_strategy = distribution_strategy
        self._tower_id = tower_id

    def merge_call(self, merge_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Wait for all towers, and run a function once in the cross-tower context with what they brought.

        Args:
            merge_fn: called as ``merge_fn(strategy, *args, **kwargs)``; each argument is what `regroup` makes of the
                towers' values. Of several towers the first one's function is called.
            *args: this tower's values.
            **kwargs: more of them.

        Returns:
            This tower's part of what the function returned: of `PerDevice` and `Mirrored` values the one of its device.

        Raises:
            StrategyError: This is not the current tower context.
            TowerMismatchError: The towers call it different numbers of times or with different things.
        """
        require_tower_context(self)
        return self._merge_call(merge_fn, *args, **kwargs)

    def _merge_call(self, merge_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with entered(CrossTowerMode(self._distribution_strategy)):
            return merge_fn(self._distribution_strategy, *args, **kwargs)

    @property
    def is_single_tower(self) -> bool:
        """Whether there is a single tower.

        Raises:
            StrategyError: This is not the current tower context.
        """
        require_tower_context(self)
        return bool(self._distribution_strategy.is_single_tower)

    @property
    def num_towers(self) -> int:
        """K, the number of towers."""
        return int(self._distribution_strategy.num_towers)

    @property
    def tower_id(self) -> int:
        """Which tower this is, from 0 to K - 1.

        Raises:
            StrategyError: This is not the current tower context.
        """
        require_tower_context(self)
        return self._tower_id

    @property
    def distribution_strategy(self) -> Any:
        """The strategy that the tower belongs to."""
        return self._distribution_strategy

    @property
    def device(self) -> str:
        """The device that this tower is built for, as a string.

        Raises:
            StrategyError: This is not the current tower context.
        """
        require_tower_context(self)
        return device_key(current_device())

    def __enter__(self) -> "TowerContext":
        # Nothing is kept here: several threads may be in blocks of the default strategy's one tower context.
        context_stack().append(InTowerMode(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        context_stack().pop()

    def __repr__(self) -> str:
        return f"tower {self._tower_id} of {self._distribution_strategy!r}"


def get_update_device() -> Any:
    """Return the device of the update that is built now, or None outside `update` and `update_non_slot`.

    Returns:
        A device name; under the default strategy, what is updated.

    Shapes:
        No tensors.

    Raises:
        Nothing.

    Source:
        The seed ``distribute``.
    """
    return _current.get()


class UpdateContext:
    """The block in which one device is updated; blocks can be nested.

    Args:
        device: the device.

    Source:
        The seed ``distribute``.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._tokens: list[Any] = []

    def __enter__(self) -> None:
        self._tokens.append(_current.set(self._device))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _current.reset(self._tokens.pop())


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


def with_layer_state(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a variable creator's arguments, for state of a Keras layer such that it is local to towers.

    Args:
        kwargs: the arguments. Those of Keras say nothing of ``use_resource``; its state is what is not trained and has
            neither a synchronization nor an aggregation of its own.

    Returns:
        The arguments, with the mean over towers as the aggregation of floating-point numbers, and the first tower's
        value as that of others.

    Shapes:
        No tensors.

    Raises:
        Nothing.

    Source:
        Own; the layers of the seed ``distribute`` say so themselves.
    """
    # Both enumerations call what they do by itself 0.
    says_how = any(getattr(kwargs.get(key), "value", 0) for key in ("synchronization", "aggregation"))
    is_trained = kwargs.get("trainable") is not False
    if "use_resource" in kwargs or says_how or is_trained or not isinstance(current_mode(), Tower):
        return kwargs
    is_floating = tf.as_dtype(kwargs.get("dtype") or tf.float32).is_floating
    return {
        **kwargs,
        "synchronization": tf.VariableSynchronization.ON_READ,
        "aggregation": tf.VariableAggregation.MEAN if is_floating else tf.VariableAggregation.ONLY_FIRST_TOWER,
    }
