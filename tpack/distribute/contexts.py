"""Current context of code: a tower of a distribution strategy, or across its towers.

In a *tower context* code builds one tower; in a *cross-tower context* it builds what all towers of a strategy share.
Code starts in the tower context of the default strategy. ``with strategy.scope():`` enters the cross-tower context of a
strategy, `call_for_each_tower` its tower contexts, and `merge_call` the cross-tower context again. A trainer's tower is
a tower context too. The frame of `tpack.tower.context` holds the current context.

Source:
    The seed ``distribute`` has all public functions and classes of these names.
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable, current_device, shown_strategy
from tpack.errors import StrategyError
from tpack.tower.context import (
    Frame,
    TowerContext,
    current_frame,
    entered,
    get_current_tower_context,
    pop_frame,
    push_frame,
)
from tpack.tower.devices import device_key
from tpack.tower.getters import Getter, custom_getter_scope
from tpack.types import Strategy
from tpack.utils.logger import log_once
from tpack.utils.validation import check_arguments

S = TypeVar("S", bound=Strategy)

# Both build on this module; they are loaded for code outside of all strategies, and in a trainer's tower.
_DEFAULT_STRATEGY = "tpack.distribute.default_strategy"
_TRAINER_TOWERS = "tpack.distribute.trainer_strategy"


def get_tower_context() -> "ReplicaContext | None":
    """Return the current tower context, or None in a cross-tower context; see `get_cross_tower_context`."""
    frame = current_frame()
    if frame.is_outside:
        return importlib.import_module(_DEFAULT_STRATEGY).DEFAULT_TOWER_CONTEXT
    if frame.tower is None:
        return tower_context_of(frame)
    return tower_context_of(frame) or importlib.import_module(_TRAINER_TOWERS).context_of_tower(frame.tower)


def get_cross_tower_context() -> Any:
    """Return the strategy whose cross-tower context is current, or None in a tower context."""
    return current_frame().strategy


def get_distribution_strategy() -> Any:
    """Return the current strategy, in either kind of context: the default one outside of all others."""
    context = get_tower_context()
    return current_frame().strategy if context is None else context.distribution_strategy


def has_distribution_strategy() -> bool:
    """Return whether a strategy other than the default one is current; a trainer's towers count as one."""
    return not get_distribution_strategy().is_default


def strategy_of(frame: Frame) -> Any:
    """Return the strategy of a frame; None for the default one, and in a trainer's tower without a context."""
    if frame.strategy is not None:
        return frame.strategy
    context = tower_context_of(frame)
    return None if context is None else context.distribution_strategy


def tower_context_of(frame: Frame) -> "ReplicaContext | None":
    """Return the strategy's tower context of a frame, or None where there is none yet."""
    if frame.tower is not None:
        return _contexts.get(frame.tower)
    return frame.tower_context if isinstance(frame.tower_context, ReplicaContext) else None


def show_tower(tower: TowerContext, context: "ReplicaContext") -> None:
    """Register the tower context of a tower, which lives as long; the context must not refer to the tower."""
    _contexts[tower] = context


@contextmanager
def across_towers(strategy: Strategy) -> Iterator[None]:
    """Enter the cross-tower context of a strategy for a block, in which TensorFlow sees no strategy."""
    with entered(current_frame().inside(strategy=strategy)), shown_strategy(None):
        yield


def require_distribution_strategy_scope(strategy: Strategy) -> None:
    """Raise a `StrategyError` unless a strategy is the current one, in either kind of context."""
    frame = current_frame()
    current = strategy_of(frame)
    if current is strategy or (frame.is_outside and strategy.is_default):
        return
    if frame.is_outside or (current is not None and current.is_default):
        raise StrategyError(f'need to be inside "with distribution_strategy.scope()" for {strategy!r}')
    raise StrategyError(
        f"mixing different DistributionStrategy objects: {current or frame.tower!r} is not {strategy!r}"
    )


def require_cross_tower_context(strategy: Strategy) -> None:
    """Raise a `StrategyError` unless the cross-tower context of a strategy is the current one."""
    require_distribution_strategy_scope(strategy)
    if current_frame().strategy is None:
        raise StrategyError(
            f"this method of {strategy!r} requires being in cross-tower context, and this is a tower: use "
            "get_tower_context().merge_call()"
        )


def require_tower_context(tower_context: "ReplicaContext") -> None:
    """Raise a `StrategyError` unless a tower context is the current one."""
    frame = current_frame()
    strategy = tower_context.distribution_strategy
    # The default strategy has one tower context, so it needs no comparison.
    if tower_context_of(frame) is tower_context or (frame.is_outside and strategy.is_default):
        return
    if frame.strategy is not None:
        raise StrategyError(f"need to be inside `call_for_each_tower()`, and this is {frame.strategy!r} across towers")
    if strategy_of(frame) is strategy:
        raise StrategyError(f"mismatching tower context: {tower_context_of(frame)!r} is not {tower_context!r}")
    raise StrategyError(
        f"mismatching DistributionStrategy objects: {strategy_of(frame) or frame.tower or 'the default one'!r} is not "
        f"{strategy!r}"
    )


class ReplicaContext:
    """One tower of a strategy, as seen from inside; this base class is that of a single tower.

    As a block it is the current tower context; ``tpack.distribute.TowerContext`` is TensorFlow 1's name for it. The
    `TowerContext` of `tpack.tower` is a tower being built, with its scopes and variables; in a strategy's tower both
    are current. Properties raise a `StrategyError` where this is not the current tower context.
    """

    def __init__(self, distribution_strategy: Strategy, tower_id: int) -> None:
        self._distribution_strategy = distribution_strategy
        self._tower_id = tower_id

    def merge_call(self, merge_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Wait for all towers, and run a function once in the cross-tower context with their values.

        Args:
            merge_fn: called as ``merge_fn(strategy, *args, **kwargs)``; each argument is the `regroup` of the towers'
                values. The first tower's function is called.
            *args: this tower's values.
            **kwargs: more of them.

        Returns:
            This tower's part of the result: of `PerDevice` and `Mirrored` values that of its device.

        Raises:
            StrategyError: This is not the current tower context.
            TowerMismatchError: The towers call it different numbers of times or with different things.
        """
        require_tower_context(self)
        return self._merge_call(merge_fn, *args, **kwargs)

    def _merge_call(self, merge_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with across_towers(self._distribution_strategy):
            return merge_fn(self._distribution_strategy, *args, **kwargs)

    @property
    def is_single_tower(self) -> bool:
        """Whether there is a single tower."""
        require_tower_context(self)
        return bool(self._distribution_strategy.is_single_tower)

    @property
    def num_towers(self) -> int:
        """K, the number of towers."""
        return int(self._distribution_strategy.num_towers)

    @property
    def tower_id(self) -> int:
        """The number of this tower, from 0 to K - 1."""
        require_tower_context(self)
        tower = current_frame().tower
        if tower is not None:
            tower.note_asked("tower_id")
        return self._tower_id

    @property
    def number(self) -> int:
        """The number of this tower, for what is equal in all towers after the first."""
        return self._tower_id

    @property
    def distribution_strategy(self) -> Any:
        """The strategy of the tower."""
        return self._distribution_strategy

    @property
    def device(self) -> str:
        """The device of this tower, as a string."""
        require_tower_context(self)
        return device_key(current_device())

    def __enter__(self) -> "ReplicaContext":
        # Stateless: several threads may be in blocks of the default strategy's one tower context.
        push_frame(current_frame().inside(tower_context=self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pop_frame()

    def __repr__(self) -> str:
        return f"tower {self._tower_id} of {self._distribution_strategy!r}"


_contexts: WeakKeyDictionary[TowerContext, ReplicaContext] = WeakKeyDictionary()
"""The contexts of towers: of a strategy's towers from the beginning, of a trainer's on first use."""


def get_update_device() -> str | None:
    """Return the device of the current update, or None outside `update` and `update_non_slot`."""
    return current_frame().update_device


@check_arguments
class UpdateContext:
    """Block in which one device is updated; blocks can be nested."""

    def __init__(self, device: str) -> None:
        self._device = device

    def __enter__(self) -> None:
        push_frame(replace(current_frame(), update_device=self._device))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pop_frame()


@contextmanager
def current_strategy(
    strategy: S, create_variable: Callable[..., BaseVariable], default_device: str | None = None
) -> Iterator[S]:
    """Make a strategy and its cross-tower context current in a block, which yields the strategy.

    Args:
        strategy: the strategy.
        create_variable: a variable creator, ``create_variable(next_creator, **kwargs)``.
        default_device: the device of the block's operations, or None.

    Raises:
        StrategyError: In the block, a variable is created where another strategy is current.
    """

    def create(next_creator: Callable[..., BaseVariable], **kwargs: Any) -> BaseVariable:
        require_distribution_strategy_scope(strategy)
        tower = get_current_tower_context()
        if get_update_device() is not None or (tower is not None and tower.recorder.is_paused):
            # A slot that an optimizer makes where it updates one component belongs to that device alone. A variable
            # that one tower makes for all, such as the state of moving summaries, is changed by that tower alone.
            return next_creator(**with_resource(kwargs))
        return create_variable(next_creator, **with_layer_state(with_resource(kwargs)))

    with ExitStack() as blocks:
        blocks.enter_context(across_towers(strategy))
        blocks.enter_context(custom_getter_scope(_without_partitioner))
        blocks.enter_context(tf.variable_creator_scope(create))
        if default_device:
            blocks.enter_context(tf.device(default_device))
        yield strategy


def with_resource(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a creator's arguments for a resource variable; Keras variables are, without the argument."""
    return {**kwargs, "use_resource": True} if "use_resource" in kwargs else kwargs


def _without_partitioner(getter: Getter, *args: Any, **kwargs: Any) -> tf.Variable:
    if kwargs.pop("partitioner", None) is not None:
        log_once("Variables are not partitioned under a distribution strategy.", "warning")
    return getter(*args, **kwargs)


def with_layer_state(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a variable creator's arguments, with the state of Keras layers local to towers.

    Those of Keras have no ``use_resource``; its state is not trained, and has neither synchronization nor aggregation.
    Floating-point numbers are aggregated by the mean over towers, others by the first tower's value.
    """
    # The automatic value of both enumerations is 0.
    says_how = any(getattr(kwargs.get(key), "value", 0) for key in ("synchronization", "aggregation"))
    is_trained = kwargs.get("trainable") is not False
    if "use_resource" in kwargs or says_how or is_trained or current_frame().tower is None:
        return kwargs
    is_floating = tf.as_dtype(kwargs.get("dtype") or tf.float32).is_floating
    return {
        **kwargs,
        "synchronization": tf.VariableSynchronization.ON_READ,
        "aggregation": tf.VariableAggregation.MEAN if is_floating else tf.VariableAggregation.ONLY_FIRST_TOWER,
    }
