"""The strategy's side of a tower: which tower this is, and the way back to all towers.

This is what `get_tower_context` returns. A tower of a trainer, and one of a strategy that builds several, is a
`tpack.tower.TowerContext` as well, which looks after scopes, names and collections.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any

from tpack.compat import current_device
from tpack.distribute.contexts import CrossTowerMode, InTowerMode, entered, require_tower_context
from tpack.distribute.devices import device_key
from tpack.tower.context import context_stack


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
