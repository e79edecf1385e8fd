"""Where the current thread is: in a tower, or across the towers of a distribution strategy.

There are two kinds of modes. In a *tower context* code builds one tower; in a *cross-tower context* it builds what all
towers of a strategy share. They are entries of the stack of `tpack.tower.context`, together with the towers of trainers.
With nothing on the stack the mode is the default tower's, of the default strategy.

This module holds the stack's side and the checks of both kinds; what users call is in `tpack.distribute.current`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tpack.errors import StrategyError
from tpack.tower.context import TowerContext as Tower
from tpack.tower.context import context_stack


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
