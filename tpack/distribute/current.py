"""What is current: the strategy, and the tower context or the cross-tower context of it.

Code starts in the tower context of the default strategy. ``with strategy.scope():`` switches to the cross-tower context
of a strategy, `call_for_each_tower` to a tower context of it, and `merge_call` back to the cross-tower context. A
trainer's tower is a tower context too.
"""

from tpack.distribute.contexts import CrossTowerMode, InTowerMode, current_mode
from tpack.distribute.default import DEFAULT_STRATEGY, DEFAULT_TOWER_CONTEXT
from tpack.distribute.strategy import DistributionStrategy
from tpack.distribute.tower_context import TowerContext
from tpack.distribute.trainer_towers import context_of_tower


def get_tower_context() -> TowerContext | None:
    """Return the current tower context.

    Returns:
        None in a cross-tower context. Exactly one of this and `get_cross_tower_context` is not None.

    Shapes:
        No tensors.

    Raises:
        Nothing.

    Source:
        The seed ``distribute``.
    """
    mode = current_mode()
    if mode is None:
        return DEFAULT_TOWER_CONTEXT
    if isinstance(mode, CrossTowerMode):
        return None
    context: TowerContext = mode.tower_context if isinstance(mode, InTowerMode) else context_of_tower(mode)
    return context


def get_cross_tower_context() -> DistributionStrategy | None:
    """Return the strategy whose cross-tower context is current.

    Returns:
        None in a tower context.

    Shapes:
        No tensors.

    Raises:
        Nothing.

    Source:
        The seed ``distribute``.
    """
    mode = current_mode()
    return mode.strategy if isinstance(mode, CrossTowerMode) else None


def get_distribution_strategy() -> DistributionStrategy:
    """Return the current strategy, in either kind of context.

    Returns:
        The default strategy outside of all others.

    Shapes:
        No tensors.

    Raises:
        Nothing.

    Source:
        The seed ``distribute``.
    """
    context = get_tower_context()
    strategy: DistributionStrategy
    strategy = current_mode().strategy if context is None else context.distribution_strategy
    return strategy


def has_distribution_strategy() -> bool:
    """Tell whether a strategy other than the default one is current; a trainer's towers count as one.

    Shapes:
        No tensors.

    Raises:
        Nothing.

    Source:
        The seed ``distribute``.
    """
    return get_distribution_strategy() is not DEFAULT_STRATEGY
