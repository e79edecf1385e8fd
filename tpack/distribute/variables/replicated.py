"""Variables with a component on each of several devices: mirrored ones, those of each tower, and their creation.

A mirrored variable is kept equal by a change on all devices. A tower's own, such as a count of examples, is a result
only together with those of the others. The first tower makes a variable with the creator of plain ones, and the others
find it: ``tpack.distribute.replica_context`` gives those the ownership ``tpack.tower.ownership.MirrorOwnership``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable, keep_watching
from tpack.distribute.contexts import (
    ReplicaContext,
    get_cross_tower_context,
    get_tower_context,
    get_update_device,
    has_distribution_strategy,
)
from tpack.distribute.strategy import DistributionStrategy, VariableCreator
from tpack.distribute.values import (
    Mirrored,
    PerDevice,
    PlainValue,
    TensorOrSlices,
    Value,
    tie_together,
    update_on_devices,
)
from tpack.distribute.variables.distributed import (
    TO_AGGREGATE,
    Change,
    DistributedVariable,
    TensorOrArray,
    assign_to_components,
    replace_in_collections,
)
from tpack.distribute.write_guard import protect, refuse_partial_change
from tpack.errors import ConfigError, StrategyError, TowerMismatchError
from tpack.reduction.sums import on_device
from tpack.tower.context import current_frame
from tpack.tower.keras_values import is_giving_value

_SUM, _MEAN = tf.VariableAggregation.SUM, tf.VariableAggregation.MEAN

VariableOfDevices = TypeVar("VariableOfDevices", bound=DistributedVariable)

_SYNCHRONIZATIONS = {mode.value: mode for mode in tf.VariableSynchronization}

_AGGREGATIONS = {mode.value: mode for mode in tf.VariableAggregation}


class MirroredVariable(DistributedVariable, Mirrored):
    """A variable of locality V(v), a mirror of which is on each device of a strategy.

    The effect of ``assign`` and the other changing methods depends on the context. In a function given to `update` or
    `update_non_slot`, they change the mirror of the update's device. In a cross-tower context, and outside of every
    strategy, they change all mirrors, by `update`. In a tower, the values of all towers are aggregated first, which
    needs an aggregation and every tower to take part; each tower gets the operation of its mirror. Values that a Keras
    layer loads are initial values of all mirrors.

    TensorFlow's own operations on its handle, such as those of ``tf.train.Optimizer`` outside of `apply_gradients`,
    would change one mirror: they are errors where they are made.

    Args:
        index: the mirror on each device.
        aggregation: the ``tf.VariableAggregation`` of towers' assignments: ``SUM``, ``MEAN`` or ``ONLY_FIRST_TOWER``;
            with ``NONE``, towers cannot assign.

    Raises:
        StrategyError: In a tower, it is changed without an aggregation, or by a change that cannot be aggregated; in an
            update, it has no mirror on the device.
        TowerMismatchError: The towers change different variables, or in different ways.

    Source:
        The seed ``distribute``.
    """

    @property
    def handle(self) -> tf.Tensor:
        """The handle of the current mirror, by which only updates may change it."""
        if len(self._index) > 1:
            keep_watching(refuse_partial_change)
        return super().handle

    def _lazy_read(self, operation: tf.Operation) -> BaseVariable:
        """Return the result of functions that change a variable by its handle, as in an update they can."""
        return self.component()._lazy_read(operation)

    def _change(self, method: str, values: tuple[Value, ...], options: Mapping[str, object]) -> Change:
        def change(mirror: BaseVariable, *values: PlainValue) -> Change:
            return getattr(mirror, method)(*values, **options)

        strategy = get_cross_tower_context()
        device = get_update_device()
        if strategy is not None and device is not None:
            # Refused where there is no mirror: all mirrors would be changed, once for each device that is updated.
            return change(self.get(device), *values)
        if strategy is not None:
            return tie_together(strategy.update(self, change, *values))
        if not has_distribution_strategy() or (method == "assign" and is_giving_value()):
            subjects = {device: (mirror,) for device, mirror in self.index.items()}
            return tie_together(update_on_devices(change, subjects, values, {}))
        self._check_aggregation(method)

        def merge(strategy: DistributionStrategy, variable: Value, method: object, values: Sequence[Value]) -> Change:
            if variable is not self or not isinstance(method, str):
                raise TowerMismatchError(f"towers change {variable!r} by {method!r}: expected the same in all towers")
            return strategy.update(self, change, *(self._aggregate(strategy, value) for value in values))

        # Numbers become tensors, so that each tower's counts once.
        brought = (*map(tf.convert_to_tensor, values[:-1]), self._as_tensor(values[-1]))
        return _tower_context().merge_call(merge, self, method, brought)

    def _check_aggregation(self, method: str) -> None:
        """Check that values of all towers can become one that changes every mirror."""
        if self.aggregation == tf.VariableAggregation.NONE:
            raise StrategyError(
                f"a tower calls {method} of {self.op.name}, which is mirrored: make it with an aggregation, such as "
                "tf.VariableAggregation.MEAN, that says what becomes of the towers' values, or wrap the optimizer that "
                "does it in a DistributedOptimizer"
            )
        if method not in TO_AGGREGATE and self.aggregation != tf.VariableAggregation.ONLY_FIRST_TOWER:
            raise StrategyError(
                f"a tower calls {method} of {self.op.name}, whose towers are aggregated by {self.aggregation}: only "
                f"{', '.join(TO_AGGREGATE)} can be, others with tf.VariableAggregation.ONLY_FIRST_TOWER or in "
                "merge_call"
            )

    def _as_tensor(self, value: Value) -> TensorOrSlices:
        return value if isinstance(value, tf.IndexedSlices) else tf.convert_to_tensor(value, self.dtype)

    def _aggregate(self, strategy: DistributionStrategy, value: Value) -> Value:
        if self.aggregation != tf.VariableAggregation.ONLY_FIRST_TOWER:
            return strategy.reduce(self.aggregation, value, self)
        return strategy.broadcast(strategy.unwrap(value)[0], self)

    def _saved_value(self) -> tf.Tensor:
        return self.primary.value()


def _tower_context() -> ReplicaContext:
    context = get_tower_context()
    if context is None:
        raise StrategyError("expected a tower context, and this is a cross-tower context")
    return context


class TowerLocalVariable(DistributedVariable, PerDevice):
    """A variable whose components differ between towers, and are aggregated when it is read across towers or saved.

    A tower reads and changes its own component. Across towers, and outside of every strategy, its value is the sum or
    the mean of the components, or the first tower's; assigning it, as restoring does, gives the components parts of the
    same value.

    Args:
        index: the component of each device.
        aggregation: ``tf.VariableAggregation.SUM``, ``MEAN`` or ``ONLY_FIRST_TOWER``; ``NONE`` for use in towers only.

    Raises:
        ConfigError: It is not numeric, and is to be summed or averaged.
        StrategyError: It is read across towers without an aggregation, or changed there by another method than
            ``assign``.

    Source:
        The seed ``distribute``.
    """

    differs_between_towers = True

    def __init__(self, index: Mapping[str, BaseVariable], aggregation: tf.VariableAggregation) -> None:
        super().__init__(index, aggregation)
        if aggregation in (_SUM, _MEAN) and not (
            self.dtype.is_floating or self.dtype.is_integer or self.dtype.is_complex
        ):
            raise ConfigError(
                f"{self.op.name} is local to towers and of {self.dtype.name}, which has no sum or mean: make it with "
                "tf.VariableAggregation.ONLY_FIRST_TOWER"
            )
        self._aggregate: tf.Tensor | None = None
        if aggregation != tf.VariableAggregation.NONE:
            with tf.init_scope(), on_device(self.primary.device), tf.name_scope(f"{self.op.name}/across_towers/"):
                self._aggregate = tf.identity(self._get_cross_tower())

    def _change(self, method: str, values: tuple[Value, ...], options: Mapping[str, object]) -> Change:
        """Change this tower's component; across towers, only a value of all together can be assigned."""
        key = self._key_in_tower()
        if key is not None:
            return getattr(self._index[key], method)(*values, **options)
        if method == "assign":
            return assign_to_components(self, *values)
        raise StrategyError(
            f"{method} of {self.op.name}, which is local to towers, may only be called in a tower context"
        )

    def _lazy_read(self, operation: tf.Operation) -> BaseVariable:
        """Return the result of functions that change it by its handle, as ``tf.scatter_add``, in towers only."""
        if self._key_in_tower() is None:
            raise StrategyError(
                f"{operation.type} of {self.op.name}, which is local to towers, may only be called in a tower context"
            )
        return self.component()._lazy_read(operation)

    def split_value(self, value: TensorOrArray) -> list[TensorOrArray]:
        """Return the value of each component for a tensor or array to be the variable's value across towers."""
        others = len(self._index) - 1
        if self.aggregation != _SUM or others == 0:
            return super().split_value(value)
        share = value / (others + 1) if self.dtype.is_floating or self.dtype.is_complex else value // (others + 1)
        share = tf.cast(share, value.dtype) if tf.is_tensor(value) else share.astype(value.dtype)
        # What dividing leaves over goes to the first, so that the sum is what it was.
        return [value - share * others, *([share] * others)]

    def _key_in_tower(self) -> str | None:
        return None if current_frame().strategy is not None else self._key_here()

    def _get_cross_tower(self) -> tf.Tensor:
        values = [component.value() for component in self.components]
        if self.aggregation == tf.VariableAggregation.ONLY_FIRST_TOWER:
            return values[0]
        if self.aggregation == _SUM:
            return tf.add_n(values)
        if self.aggregation == _MEAN:
            total = tf.add_n(values)
            return tf.cast(total / len(values), total.dtype)
        raise StrategyError(
            f"{self.op.name} is local to towers and has no aggregation: its value across towers is unknown"
        )

    def _as_graph_element(self) -> tf.Tensor:
        """Return this tower's component for sessions, otherwise the aggregate."""
        if self._key_in_tower() is not None:
            return super()._as_graph_element()
        return self._get_cross_tower() if self._aggregate is None else self._aggregate

    def _saved_value(self) -> tf.Tensor:
        return self._get_cross_tower()


def create_distributed_variable(
    kind: type[VariableOfDevices], next_creator: VariableCreator, devices: Sequence[str], kwargs: Mapping[str, Any]
) -> VariableOfDevices:
    """Make a variable of several devices.

    The first device's component has the variable's name, and the others that name with the suffix ``/replica_k``. All
    start with the first one's value. In the graph's collections the variable replaces them.

    Args:
        kind: the class of the variable. One that differs between towers is not trainable, whatever the arguments say.
        next_creator: creates a plain variable.
        devices: the devices, the first one first.
        kwargs: the arguments of a variable creator; a caching device is ignored, as each device has the variable.

    Raises:
        ConfigError: The aggregation is not a ``tf.VariableAggregation``.

    Source:
        The mirrored strategy of the seed ``distribute``.
    """
    aggregation = _aggregation_in(kwargs)
    kwargs = {**kwargs, "trainable": False} if kind.differs_between_towers else dict(kwargs)
    if "caching_device" in kwargs:
        kwargs["caching_device"] = None
    variable = kind(_create_components(next_creator, devices, kwargs), aggregation)
    replace_in_collections(variable)
    if not kind.differs_between_towers:
        protect(variable)
    return variable


def is_local_to_towers(kwargs: Mapping[str, Any]) -> bool:
    """Return whether a creator's arguments have ``ON_READ``; raise a `ConfigError` for unsupported ones."""
    given = kwargs.get("synchronization") or tf.VariableSynchronization.AUTO
    # TensorFlow has had several enumerations of the same values.
    synchronization = _SYNCHRONIZATIONS.get(getattr(given, "value", None))
    if synchronization in (None, tf.VariableSynchronization.NONE):
        raise ConfigError(
            f"the variable {kwargs.get('name')!r} got synchronization={given!r} under a strategy: expected AUTO, "
            "ON_WRITE or ON_READ of tf.VariableSynchronization"
        )
    return bool(synchronization == tf.VariableSynchronization.ON_READ)


def _aggregation_in(kwargs: Mapping[str, Any]) -> tf.VariableAggregation:
    given = kwargs.get("aggregation") or tf.VariableAggregation.NONE
    aggregation = _AGGREGATIONS.get(getattr(given, "value", None))
    if aggregation is None:
        raise ConfigError(
            f"the variable {kwargs.get('name')!r} got aggregation={given!r}: expected a tf.VariableAggregation"
        )
    return aggregation


def _create_components(
    next_creator: VariableCreator, devices: Sequence[str], kwargs: Mapping[str, Any]
) -> dict[str, BaseVariable]:
    with on_device(devices[0]):
        primary = next_creator(**kwargs)
    components = {devices[0]: primary}
    for number, device in enumerate(devices[1:], start=1):

        def same_value(device: str = device) -> tf.Tensor:
            with on_device(device):
                return tf.identity(primary.initial_value)

        # A slash at the end makes the name absolute.
        own = {"name": f"{primary.op.name}/replica_{number}/", "initial_value": same_value}
        with on_device(device):
            components[device] = next_creator(**{**kwargs, **own})
    return components
