"""What a distribution strategy offers: where towers run, where variables live, and how values move between them.

The public methods check that they are called where they may be and call the method of the same name with an underscore,
which is what a strategy implements: see `tpack.distribute.strategy`.

Values have a *locality*: T, another value in each tower (`PerDevice`); M, the same value in each tower (`Mirrored`);
V(v), mirrored over the devices of the variable v; N, mirrored over the devices of non-slot variables. The methods say
which they take and give.

What a strategy implements: its devices, and what it does where `DistributionStrategy` has checked that it may.

A strategy derives from `tpack.distribute.strategy.DistributionStrategy`, which holds what users call.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.contexts import (
    CrossTowerMode,
    InTowerMode,
    current_mode,
    current_strategy,
    entered,
    require_cross_tower_context,
    require_distribution_strategy_scope,
    strategy_of,
    tower_context_of,
    with_resource,
)
from tpack.distribute.optimizers import advance, reduce_gradients, updating
from tpack.distribute.values import DistributedValues, reduce_op_of
from tpack.errors import ConfigError
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tower.context import TowerContext as Tower


class StrategyPolicy:
    """The part of a strategy that is different in each. What is not implemented here is for a subclass.

    Attributes:
        is_default: whether it is the default strategy.

    Source:
        The methods with an underscore of the strategies in the seed ``distribute``.
    """

    is_default = False

    def __init__(self) -> None:
        self._default_device: Any = None

    @property
    def is_single_tower(self) -> bool:
        """Whether there is a single tower."""
        return self.num_towers == 1

    @property
    def num_towers(self) -> int:
        """K, the number of towers to average over."""
        raise NotImplementedError

    @property
    def worker_devices(self) -> list[str]:
        """The devices that towers run on, in their order."""
        raise NotImplementedError

    @property
    def parameter_devices(self) -> list[str]:
        """The devices that variables are on and updated on."""
        raise NotImplementedError

    def non_slot_devices(self, var_list: Sequence[Any]) -> Any:
        """Return where the non-slot variables of an optimizer go, for `colocate_vars_with` and `update_non_slot`.

        Args:
            var_list: the variables that are optimized.
        """
        raise NotImplementedError

    def configure(self, session_config: Any = None) -> None:
        """Choose what suits a session of this ``ConfigProto``; nothing in this base class."""

    def _create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        """Make a variable; ``colocate_with`` among the arguments is what `colocate_vars_with` was given."""
        raise NotImplementedError

    def _read_var(self, v: Any) -> Any:
        raise NotImplementedError

    def _distribute_dataset(self, dataset_fn: Callable[[], Any]) -> Any:
        raise NotImplementedError

    def _call_dataset_fn(self, dataset_fn: Callable[[], Any]) -> Any:
        result = dataset_fn()
        if not isinstance(result, tf.compat.v2.data.Dataset):
            raise ConfigError(f"dataset_fn() must return a tf.data.Dataset under a strategy, it returned {result!r}")
        return result

    def _broadcast(self, tensor: Any, destinations: Any) -> Any:
        raise NotImplementedError

    def _call_for_each_tower(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _reduce(self, aggregation: Any, value: Any, destinations: Any) -> Any:
        raise NotImplementedError

    def _batch_reduce(self, aggregation: Any, value_destination_pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        return [self._reduce(aggregation, value, destinations) for value, destinations in value_destination_pairs]

    def _update(self, var: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _update_non_slot(self, colocate_with: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _update_by_optimizer(self, optimizer: Any, grads_and_vars: Sequence[tuple[Any, Any]], name: str) -> list[Any]:
        """Apply reduced gradients to variables of one copy; return the operations."""
        return [optimizer.apply_gradients(list(grads_and_vars), name=name)]

    def _unwrap(self, distributed_value: Any) -> list[Any]:
        if isinstance(distributed_value, DistributedValues):
            return list(distributed_value.index.values())
        return [distributed_value]

    def _worker_device_index(self) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class DistributionStrategy(StrategyPolicy):
    """A list of devices and a policy of how state and computation are spread over them.

    Under one, ordinary model code builds K towers, each with its part of the data. Outside of every strategy the
    default one is current, which changes nothing, so that layers can be written for all cases at once.

    Example:
        with strategy.scope():
            iterator = strategy.distribute_dataset(dataset_fn).make_one_shot_iterator()
            train_ops = strategy.call_for_each_tower(tower_fn, iterator.get_next())
            train_op = strategy.group(train_ops)

    Source:
        The class of the same name in the seed ``distribute``.
    """

    @contextmanager
    def scope(self) -> Iterator["DistributionStrategy"]:
        """Make this strategy current in a block: variables are made by it, and the context is cross-tower.

        A block inside a block of the same strategy does nothing. Variables that ``tf.train.import_meta_graph`` brings
        into the graph stay the plain ones that they were.

        Raises:
            StrategyError: Another strategy than the default one is current, or a tower of this one.
        """
        mode = current_mode()
        current = strategy_of(mode)
        if isinstance(mode, Tower) or (current is not None and not current.is_default):
            require_cross_tower_context(self)
            yield self
            return
        with current_strategy(self, self._create_variable, self._default_device):
            yield self

    def read_var(self, v: Any) -> Any:
        """Return the value of a variable, on the current device; of a tower-local one, the aggregate over towers."""
        return self._read_var(v)

    @contextmanager
    def colocate_vars_with(self, colocate_with_variable: Any) -> Iterator[None]:
        """Make variables in a block on the devices of a variable v, with locality V(v).

        Nothing but variables should be built in the block.

        Args:
            colocate_with_variable: a variable, or what `non_slot_devices` returned.

        Raises:
            StrategyError: This strategy is not current.
        """
        require_distribution_strategy_scope(self)

        def create(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
            require_distribution_strategy_scope(self)
            return next_creator(**{**with_resource(kwargs), "colocate_with": colocate_with_variable})

        with tf.variable_creator_scope(create):
            yield

    def distribute_dataset(self, dataset_fn: Callable[[], Any]) -> Any:
        """Split a dataset over the towers.

        Args:
            dataset_fn: makes a ``tf.data.Dataset``.

        Returns:
            An object with ``make_one_shot_iterator`` and ``make_initializable_iterator``, whose elements have
            locality T.

        Raises:
            StrategyError: This is a tower.
            ConfigError: ``dataset_fn`` returns something else.
        """
        if isinstance(current_mode(), Tower | InTowerMode):
            require_cross_tower_context(self)
        return self._distribute_dataset(dataset_fn)

    def broadcast(self, tensor: Any, destinations: Any = None) -> Any:
        """Copy a tensor to several devices.

        Args:
            tensor: the tensor.
            destinations: a mirrored variable v, a device or a list of devices; None for all worker devices.

        Returns:
            A value of locality M, or V(v).

        Raises:
            StrategyError: This is not the strategy's cross-tower context.
        """
        require_cross_tower_context(self)
        return self._broadcast(tensor, destinations)

    def call_for_each_tower(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function once for each tower, in a tower context.

        Args:
            fn: builds one tower. It may call ``get_tower_context().merge_call`` to meet the other towers.
            *args: of locality T or M, or variables: each tower gets its own. Other values are the same for all.
            **kwargs: more of them. ``run_concurrently`` is taken out: it only means something in eager execution.

        Returns:
            What `regroup` makes of the K results.

        Raises:
            StrategyError: This is not the strategy's cross-tower context.
            TowerMismatchError: The towers differ in how often or for what they meet, or in what they return.
        """
        require_cross_tower_context(self)
        kwargs.pop("run_concurrently", None)
        return self._call_for_each_tower(fn, *args, **kwargs)

    def reduce(self, aggregation: Any, value: Any, destinations: Any = None) -> Any:
        """Sum or average a value over the towers.

        Args:
            aggregation: ``tf.VariableAggregation.SUM`` or ``MEAN``.
            value: of locality T.
            destinations: where the result goes: a mirrored variable v, a device or a list of devices; None for the
                devices of the value.

        Returns:
            A value of locality M, or V(v).

        Raises:
            StrategyError: This is not the strategy's cross-tower context.
            ConfigError: It is another aggregation.
        """
        require_cross_tower_context(self)
        reduce_op_of(aggregation)
        return self._reduce(aggregation, value, destinations)

    def batch_reduce(self, aggregation: Any, value_destination_pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
        """Sum or average several values over the towers, at once.

        Args:
            aggregation: ``tf.VariableAggregation.SUM`` or ``MEAN``.
            value_destination_pairs: (value, destinations) pairs, as for `reduce`.

        Returns:
            One value for each pair.

        Raises:
            StrategyError: This is not the strategy's cross-tower context.
            ConfigError: It is another aggregation.
        """
        require_cross_tower_context(self)
        reduce_op_of(aggregation)
        return self._batch_reduce(aggregation, list(value_destination_pairs))

    def update(self, var: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``fn(v, *args, **kwargs)`` once on each device that a variable is on.

        Args:
            var: the variable, mirrored or not.
            fn: updates it on one device; it gets the variable there.
            *args: of locality V(var); each call gets the part of its device. None may be `PerDevice`.
            **kwargs: more of them.

        Returns:
            What `regroup` makes of the results, with locality V(var).

        Raises:
            StrategyError: This is not the strategy's cross-tower context, or an argument differs between towers.
        """
        require_cross_tower_context(self)
        return self._update(var, fn, *args, **kwargs)

    def update_non_slot(self, colocate_with: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``fn(*args, **kwargs)`` once on each device that non-slot variables are on.

        Args:
            colocate_with: what `non_slot_devices` returned.
            fn: updates them on one device.
            *args: of locality N.
            **kwargs: more of them.

        Returns:
            What `regroup` makes of the results, with locality N.

        Raises:
            StrategyError: This is not the strategy's cross-tower context, or an argument differs between towers.
        """
        require_cross_tower_context(self)
        return self._update_non_slot(colocate_with, fn, *args, **kwargs)

    def apply_gradients(
        self,
        optimizer: Any,
        grads_and_vars: Iterable[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """Reduce the gradients of all towers and update the variables, on every device that they are on.

        Of several towers, each calls it, and the first one's optimizer does the work: a mirrored variable is updated by
        a clone of it on each device, with slots and counters there.

        Args:
            optimizer: any ``tf.train.Optimizer``.
            grads_and_vars: (gradient, variable) pairs: those of this tower, or in the cross-tower context gradients of
                locality T. They are summed or averaged as `get_loss_reduction` says.
            global_step: a variable to add one to, or None.
            name: the name of the operation.

        Returns:
            The operation, the same one in every tower.

        Raises:
            StrategyError: This strategy is not current.
            GraphBuildError: The optimizer is no ``tf.train.Optimizer``, or there is no gradient.
            TowerMismatchError: A variable has a gradient in some towers only.
            ReductionError: The gradients of a variable differ in kind, dtype or shape.
        """
        require_distribution_strategy_scope(self)
        check_optimizer(optimizer)
        label = name or optimizer.get_name()

        def merged(strategy: Any, pairs: Sequence[tuple[Any, Any]], step: Any) -> Any:
            reduced = reduce_gradients(strategy, pairs)
            with updating():
                updates = strategy._update_by_optimizer(optimizer, reduced, f"{label}_update")
            return tf.group(*updates, name=label) if step is None else advance(strategy, step, updates, label)

        mode = current_mode()
        context = tower_context_of(mode)
        if context is not None:
            return context.merge_call(merged, list(grads_and_vars), global_step)
        with entered(CrossTowerMode(self)) if mode is None else nullcontext():
            return merged(self, list(grads_and_vars), global_step)

    def unwrap(self, value: Any) -> list[Any]:
        """Return the values of all devices, which a value or a variable holds; one alone as a list of one.

        Raises:
            StrategyError: This is not the strategy's cross-tower context.
        """
        require_cross_tower_context(self)
        return self._unwrap(value)

    def group(self, value: Any, name: str | None = None) -> Any:
        """Return one operation that runs what `unwrap` returns; a single one as it is, unless it is to have a name.

        Args:
            value: a value of several devices, or a structure of them, such as a tower function may return.
            name: the name of the operation.

        Raises:
            StrategyError: This is not the strategy's cross-tower context.
        """
        require_cross_tower_context(self)
        values = tf.nest.flatten([self._unwrap(part) for part in tf.nest.flatten(value)])
        if len(values) != 1 or name is not None:
            return tf.group(values, name=name)
        return getattr(values[0], "op", values[0])

    @property
    def worker_device_index(self) -> Any:
        """Numbers from 0 to K - 1, of locality T; 0 if there is one tower.

        Raises:
            StrategyError: This is not the strategy's cross-tower context.
        """
        require_cross_tower_context(self)
        return self._worker_device_index()
