"""Base of distribution strategies: devices of towers, placement of variables, and movement of values between them.

Values have a *locality*: T, another value in each tower (`PerDevice`); M, the same value in each tower (`Mirrored`);
V(v), mirrored over the devices of the variable v; N, over those of non-slot variables.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable, last_loss_reduction
from tpack.distribute.contexts import (
    across_towers,
    current_strategy,
    require_cross_tower_context,
    require_distribution_strategy_scope,
    strategy_of,
    tower_context_of,
    with_resource,
)
from tpack.distribute.values import (
    Aggregation,
    Destinations,
    DistributedValues,
    Mirrored,
    PerDevice,
    Structure,
    Value,
    Variable,
    container_of,
    reduce_op_of,
)
from tpack.errors import ConfigError, GraphBuildError, TowerMismatchError
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tower.context import current_frame
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments, check_function, check_instance, mismatch

VariableCreator: TypeAlias = Callable[..., BaseVariable]
"""Makes a plain variable from keyword arguments, as the next creator of ``tf.variable_creator_scope`` does."""

DatasetFn: TypeAlias = Callable[[], tf.compat.v2.data.Dataset]

StepFn: TypeAlias = Callable[..., Structure]
"""Builds one step of several from a `MultiStepContext` and its data; returns what to run."""

_is_updating: ContextVar[bool] = ContextVar("tpack_applies_reduced_gradients", default=False)


class DistributionStrategy:
    """A list of devices, and a policy of how state and computation are spread over them.

    Under a strategy, ordinary model code builds K towers, each with its part of the data. Outside of all strategies the
    default one is current, which changes nothing, so that layers can be written once for all cases.

    Methods that move values or call functions are for the strategy's cross-tower context, and raise a `StrategyError`
    anywhere else. A subclass implements the properties, `non_slot_devices`, and in place of a public method the one of
    the same name with an underscore, which is called in its context with checked arguments.

    Attributes:
        is_default: whether it is the default strategy.

    Example:
        with strategy.scope():
            iterator = strategy.distribute_dataset(dataset_fn).make_one_shot_iterator()
            train_ops = strategy.call_for_each_tower(tower_fn, iterator.get_next())
            train_op = strategy.group(train_ops)

    Source:
        The class of the same name in the seed ``distribute``.
    """

    is_default = False

    def __init__(self) -> None:
        self._default_device: str | None = None

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
        """The devices of variables and their updates."""
        raise NotImplementedError

    @property
    def worker_device_index(self) -> PerDevice | int:
        """Numbers from 0 to K - 1, of locality T; 0 if there is one tower."""
        require_cross_tower_context(self)
        return self._worker_device_index()

    def non_slot_devices(self, var_list: Sequence[Variable]) -> Destinations:
        """Return the devices of optimizers' non-slot variables, for `colocate_vars_with` and `update_non_slot`."""
        raise NotImplementedError

    @property
    def between_graph(self) -> bool:
        """Whether each worker builds a graph of its own: not in one process."""
        return False

    @property
    def should_init(self) -> bool:
        """Whether this process initialises variables: the only process does."""
        return True

    @property
    def should_checkpoint(self) -> bool:
        """Whether this process writes checkpoints: the only process does."""
        return True

    @property
    def should_save_summary(self) -> bool:
        """Whether this process writes summaries: the only process does."""
        return True

    def configure(
        self,
        session_config: tf.ConfigProto | None = None,
        cluster_spec: object = None,
        task_type: str | None = None,
        task_id: int | None = None,
    ) -> None:
        """Adapt to a session; a strategy of one process takes no cluster.

        Raises:
            WrongTypeError: ``session_config`` is something else than a ``ConfigProto``.
            ConfigError: There is a cluster, or a task of one.
        """
        if session_config is not None:
            check_instance(self, "session_config", session_config, tf.ConfigProto)
        given = {"cluster_spec": cluster_spec, "task_type": task_type, "task_id": task_id}
        for name, value in given.items():
            if value:
                raise ConfigError(mismatch(repr(self), name, value, "None, as it has one process"))
        self._configure(session_config)

    def initialize(self) -> list[tf.Operation]:
        """Return operations to run before all others: none."""
        return []

    def finalize(self) -> list[tf.Operation]:
        """Return operations to run after all others: none."""
        return []

    @contextmanager
    def scope(self) -> Iterator["DistributionStrategy"]:
        """Make this strategy current in a block: it makes variables, and the context is cross-tower.

        A block inside a block of the same strategy does nothing. Variables that ``tf.train.import_meta_graph`` imports
        stay plain.

        Raises:
            StrategyError: Another strategy than the default one is current, or a tower of this one.
        """
        frame = current_frame()
        current = strategy_of(frame)
        if frame.tower is not None or (current is not None and not current.is_default):
            require_cross_tower_context(self)
            yield self
            return
        with current_strategy(self, self._create_variable, self._default_device):
            yield self

    def read_var(self, v: Variable) -> tf.Tensor:
        """Return the value of a variable on the current device; of a tower-local one, the aggregate over towers."""
        raise NotImplementedError

    @contextmanager
    def colocate_vars_with(self, colocate_with_variable: Destinations) -> Iterator[None]:
        """Make variables in a block on the devices of a variable v, or of `non_slot_devices`, with locality V(v).

        The block should build only variables.

        Raises:
            StrategyError: This strategy is not current.
        """
        require_distribution_strategy_scope(self)

        def create(next_creator: Callable[..., Variable], **kwargs: object) -> Variable:
            require_distribution_strategy_scope(self)
            return next_creator(**{**with_resource(kwargs), "colocate_with": colocate_with_variable})

        with tf.variable_creator_scope(create):
            yield

    def distribute_dataset(self, dataset_fn: DatasetFn) -> Any:
        """Split the ``tf.data.Dataset`` that a function returns over the towers.

        Returns:
            An object with ``make_one_shot_iterator`` and ``make_initializable_iterator``, with elements of locality T.

        Raises:
            StrategyError: This is a tower.
            ConfigError: ``dataset_fn`` returns something else.
        """
        if current_frame().is_in_tower:
            require_cross_tower_context(self)
        check_function(f"distribute_dataset() of a {type(self).__name__}", "dataset_fn", dataset_fn)
        return self._distribute_dataset(dataset_fn)

    def run_steps_on_dataset(
        self, fn: StepFn, iterator: Any, iterations: int = 1, initial_loop_values: Mapping[str, Structure] | None = None
    ) -> Any:
        """Build a loop of steps, which one operation runs.

        When the data end within the loop, the run fails with an ``OutOfRangeError``, and the steps before are done.

        Args:
            fn: builds one step, in the cross-tower context: ``fn(context, *inputs)``. It is called once. Usually it
                calls `call_for_each_tower`; it returns what to run.
            iterator: the data of the steps; the elements of a tuple are several inputs.
            iterations: the steps of a run.
            initial_loop_values: for each name of ``context.set_last_step_output`` in ``fn``, a value of the same dtype
                and shape; one with parts on several devices as a list.

        Returns:
            A `MultiStepContext` of the outputs. Its ``run_op`` runs the steps.

        Raises:
            ConfigError: An argument is of the wrong kind, or an output has no initial value.
        """
        require_cross_tower_context(self)
        return self._run_steps_on_dataset(fn, iterator, iterations, initial_loop_values or {})

    def broadcast(self, tensor: Value, destinations: Destinations | None = None) -> Value:
        """Copy a tensor to several devices, as a value of locality M, or V(v).

        Args:
            tensor: the tensor.
            destinations: a mirrored variable v, a device or a list of devices; None for all worker devices.
        """
        require_cross_tower_context(self)
        return self._broadcast(tensor, destinations)

    def call_for_each_tower(self, fn: Callable[..., Structure], *args: Structure, **kwargs: Structure) -> Structure:
        """Call a function once for each tower, in a tower context; return the `regroup` of the K results.

        Args:
            fn: builds one tower. It may call ``get_tower_context().merge_call``.
            *args: of locality T or M, or variables: each tower gets its own. Other values are equal for all.
            **kwargs: more of them. ``run_concurrently``, for eager execution, is ignored.

        Raises:
            TowerMismatchError: The towers differ in their merge_calls or results.
        """
        require_cross_tower_context(self)
        kwargs.pop("run_concurrently", None)
        return self._call_for_each_tower(fn, *args, **kwargs)

    def reduce(self, aggregation: Aggregation, value: Value, destinations: Destinations | None = None) -> Value:
        """Sum or average a value over the towers, or take the first tower's, as a value of locality M, or V(v).

        Args:
            aggregation: ``tf.VariableAggregation.SUM``, ``MEAN`` or ``ONLY_FIRST_TOWER``.
            value: of locality T.
            destinations: a mirrored variable v, a device or a list of devices; None for the devices of the value.

        Raises:
            ConfigError: The aggregation is another one.
        """
        require_cross_tower_context(self)
        takes_first_tower(aggregation)
        return self._reduce(aggregation, value, destinations)

    def batch_reduce(
        self, aggregation: Aggregation, value_destination_pairs: Iterable[tuple[Value, Destinations | None]]
    ) -> list[Value]:
        """Reduce the values of (value, destinations) pairs over the towers at once, each as `reduce` does."""
        require_cross_tower_context(self)
        takes_first_tower(aggregation)
        return self._batch_reduce(aggregation, list(value_destination_pairs))

    def update(self, var: Variable, fn: Callable[..., Structure], *args: Structure, **kwargs: Structure) -> Structure:
        """Call ``fn(v, *args, **kwargs)`` once on each device of a variable; return the `regroup`, of locality V(var).

        Args:
            var: the variable, mirrored or not.
            fn: updates the variable of one device.
            *args: of locality V(var); each call gets the part of its device. None may be `PerDevice`.
            **kwargs: more of them.

        Raises:
            StrategyError: An argument differs between towers.
        """
        require_cross_tower_context(self)
        return self._update(var, fn, *args, **kwargs)

    def update_non_slot(
        self, colocate_with: Destinations, fn: Callable[..., Structure], *args: Structure, **kwargs: Structure
    ) -> Structure:
        """Call ``fn(*args, **kwargs)`` once on each device of non-slot variables, as `update` does for one.

        ``colocate_with`` is a result of `non_slot_devices`; arguments and the result are of locality N.
        """
        require_cross_tower_context(self)
        return self._update_non_slot(colocate_with, fn, *args, **kwargs)

    def apply_gradients(
        self,
        optimizer: tf.train.Optimizer,
        grads_and_vars: Iterable[tuple[Value | None, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """Reduce the gradients of all towers and update the variables on all their devices.

        Of several towers, each calls it, and the first one's optimizer does the work: a clone of it on each device
        updates a mirrored variable, with slots and counters there. The operation is the same one in every tower.

        Args:
            optimizer: any ``tf.train.Optimizer``.
            grads_and_vars: (gradient, variable) pairs: those of this tower, or in the cross-tower context gradients of
                locality T. `get_loss_reduction` selects sum or mean.
            global_step: a variable to increment, or None.
            name: the name of the operation.

        Raises:
            StrategyError: This strategy is not current.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``, or there is no gradient.
            TowerMismatchError: A variable has a gradient in some towers only.
            ReductionError: The gradients of a variable differ in kind, dtype or shape.
        """
        require_distribution_strategy_scope(self)
        check_optimizer(optimizer)
        label = name or optimizer.get_name()

        def merged(strategy: DistributionStrategy, pairs: GradsAndVars, step: Variable | None) -> tf.Operation:
            reduced = strategy._reduce_gradients(pairs)
            with _updating():
                updates = strategy._update_by_optimizer(optimizer, reduced, f"{label}_update")
            return tf.group(*updates, name=label) if step is None else strategy._advance(step, updates, label)

        frame = current_frame()
        context = tower_context_of(frame)
        if context is not None:
            return context.merge_call(merged, list(grads_and_vars), global_step)
        with across_towers(self) if frame.is_outside else nullcontext():
            return merged(self, list(grads_and_vars), global_step)

    def reduce_over_workers(self, aggregation: Aggregation, value: tf.Tensor) -> tf.Tensor:
        """Return the sum or mean of a worker's value over workers; in one process the value."""
        reduce_op_of(aggregation)
        return value

    def unwrap(self, value: Value) -> list[Any]:
        """Return the values of all devices of a value or variable; a plain one as a list of one."""
        require_cross_tower_context(self)
        return list(value.index.values()) if isinstance(value, DistributedValues) else [value]

    def value_container(self, value: Any) -> Any:
        """Return the value of all devices that a component belongs to, or else the component itself."""
        container = container_of(value)
        return value if container is None else container

    def group(self, value: Structure, name: str | None = None) -> tf.Operation:
        """Return one operation that runs the `unwrap` of a structure of values; a single unnamed one as it is."""
        require_cross_tower_context(self)
        values = tf.nest.flatten([self.unwrap(part) for part in tf.nest.flatten(value)])
        if len(values) != 1 or name is not None:
            return tf.group(values, name=name)
        return getattr(values[0], "op", values[0])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def _configure(self, session_config: tf.ConfigProto | None) -> None:
        """Do nothing, in this base class."""

    def _run_steps_on_dataset(
        self, fn: StepFn, iterator: Any, iterations: int, initial_loop_values: Mapping[str, Structure]
    ) -> Any:
        raise NotImplementedError

    def _create_variable(self, next_creator: VariableCreator, **kwargs: Any) -> Variable:
        """Make a variable; ``colocate_with`` among the arguments is what `colocate_vars_with` was given."""
        raise NotImplementedError

    def _distribute_dataset(self, dataset_fn: DatasetFn) -> Any:
        raise NotImplementedError

    def _call_dataset_fn(self, dataset_fn: DatasetFn) -> tf.compat.v2.data.Dataset:
        result = dataset_fn()
        if not isinstance(result, tf.compat.v2.data.Dataset):
            raise ConfigError(f"dataset_fn returned {result!r}: expected a tf.data.Dataset")
        return result

    def _broadcast(self, tensor: Value, destinations: Destinations | None) -> Value:
        raise NotImplementedError

    def _call_for_each_tower(self, fn: Callable[..., Structure], *args: Structure, **kwargs: Structure) -> Structure:
        raise NotImplementedError

    def _reduce(self, aggregation: Aggregation, value: Value, destinations: Destinations | None) -> Value:
        raise NotImplementedError

    def _batch_reduce(
        self, aggregation: Aggregation, value_destination_pairs: Sequence[tuple[Value, Destinations | None]]
    ) -> list[Value]:
        return [self._reduce(aggregation, value, destinations) for value, destinations in value_destination_pairs]

    def _update(self, var: Variable, fn: Callable[..., Structure], *args: Structure, **kwargs: Structure) -> Structure:
        raise NotImplementedError

    def _update_non_slot(
        self, colocate_with: Destinations, fn: Callable[..., Structure], *args: Structure, **kwargs: Structure
    ) -> Structure:
        raise NotImplementedError

    def _update_by_optimizer(
        self, optimizer: tf.train.Optimizer, grads_and_vars: GradsAndVars, name: str
    ) -> list[tf.Operation]:
        """Apply reduced gradients to variables of one copy; return the operations."""
        return [optimizer.apply_gradients(list(grads_and_vars), name=name)]

    def _worker_device_index(self) -> PerDevice | int:
        raise NotImplementedError

    def _reduce_gradients(self, pairs: GradsAndVars) -> GradsAndVars:
        """Reduce gradients of locality T to their variables, by `get_loss_reduction`; leave pairs without one out."""
        for grad, variable in pairs:
            _check_pair(grad, variable)
        trained = [(grad, variable) for grad, variable in pairs if grad is not None]
        if not trained:
            raise GraphBuildError(f"none of {len(pairs)} variable(s) has a gradient: there is nothing to apply")
        reduced = self.batch_reduce(get_loss_reduction(), trained)
        return [(_plain(grad, variable), variable) for grad, (_, variable) in zip(reduced, trained, strict=True)]

    def _advance(self, global_step: Variable, after: Sequence[tf.Operation], name: str) -> tf.Operation:
        """Return the operation that adds one to a counter after other operations, in the cross-tower context."""
        with tf.control_dependencies(after):
            return self.group(self.update(global_step, lambda counter: tf.assign_add(counter, 1).op), name)


@check_arguments
class DistributeConfig(NamedTuple):
    """Strategies of an Estimator, for ``RunConfig(experimental_distribute=...)``.

    Attributes:
        train_distribute: the strategy for training, or None.
        eval_distribute: the strategy for evaluation, or None.
        remote_cluster: a cluster that one process trains on from outside; None, as there is one process.

    Source:
        TensorFlow's ``contrib.distribute``.
    """

    train_distribute: DistributionStrategy | None = None
    eval_distribute: DistributionStrategy | None = None
    remote_cluster: object = None


def takes_first_tower(aggregation: Aggregation) -> bool:
    """Return whether an aggregation takes the first tower's value; raise a `ConfigError` if it is unknown."""
    if isinstance(aggregation, Aggregation) and aggregation.value == tf.VariableAggregation.ONLY_FIRST_TOWER.value:
        return True
    reduce_op_of(aggregation)
    return False


def get_loss_reduction() -> Aggregation:
    """Return the aggregation of towers' gradients, by the last loss of ``tf.losses`` in the current graph.

    Returns:
        ``tf.VariableAggregation.SUM`` for ``tf.losses.Reduction.SUM``; for others, and without a loss, ``MEAN``.

    Source:
        The seed ``distribute``.
    """
    is_sum = last_loss_reduction() == tf.losses.Reduction.SUM
    return tf.VariableAggregation.SUM if is_sum else tf.VariableAggregation.MEAN


def is_updating() -> bool:
    """Return whether an optimizer that is called here gets reduced gradients."""
    return _is_updating.get()


@contextmanager
def _updating() -> Iterator[None]:
    token = _is_updating.set(True)
    try:
        yield
    finally:
        _is_updating.reset(token)


def _check_pair(grad: Value | None, variable: Variable) -> None:
    if isinstance(variable, PerDevice):
        raise GraphBuildError(f"{variable!r} is another variable on each device: no optimizer can keep it the same")
    if isinstance(grad, DistributedValues):
        without = [device for device, part in grad.index.items() if part is None]
        if without:
            name, devices = variable.op.name, ", ".join(without)
            raise TowerMismatchError(f"{name} has a gradient in some towers, and none on {devices}")


def _plain(grad: Value, variable: Variable) -> Value:
    if isinstance(grad, Mirrored) and not isinstance(variable, DistributedValues):
        return grad.get(variable.device)
    return grad
