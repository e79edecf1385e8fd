"""Base of variables of several devices: reading, changes, names, initialisation and saving.

Such a variable has one component on each device. Code that reads it, differentiates with respect to it, or depends on
it, uses the component of the current device. The properties of the variable are those of the first device's component,
with the same name.

The methods of ``tf.Variable`` that change it would change one component. Here each calls one method, which a kind of
variable implements: it changes the components, depending on the context.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow.compat.v1 as tf

from tpack.compat.graphs import VARIABLE_VALUE_KEY, BaseVariable, SaveableValue, Trackable, current_device
from tpack.distribute.values import DistributedValues, Structure, Value, with_operators
from tpack.errors import StrategyError
from tpack.reduction.sums import on_device
from tpack.tower.devices import device_key

TensorOrArray: TypeAlias = tf.Tensor | np.ndarray

Change: TypeAlias = Structure
"""The result of changing a variable: an operation, a tensor, a reader of it, or values of several devices of them."""

_TABLE_NAME = "params"
"""The name with which ``tf.nn.embedding_lookup_sparse`` converts a table, and ``embedding_lookup`` with a number."""

TO_AGGREGATE = ("assign", "assign_add", "assign_sub", "scatter_add", "scatter_sub")
"""The changes that commute with the aggregation of the towers' values."""


class ChangingMethods:
    """Methods of ``tf.Variable`` that change it; options are ``name``, ``use_locking`` and ``read_value``."""

    def _change(self, method: str, values: tuple[Value, ...], options: Mapping[str, object]) -> Change:
        """Call a method of each component with its part of values."""
        raise NotImplementedError

    def assign(self, value: Value, **options: object) -> Change:
        """Assign a value."""
        return self._change("assign", (value,), options)

    def assign_add(self, delta: Value, **options: object) -> Change:
        """Add a value."""
        return self._change("assign_add", (delta,), options)

    def assign_sub(self, delta: Value, **options: object) -> Change:
        """Subtract a value."""
        return self._change("assign_sub", (delta,), options)

    def scatter_add(self, sparse_delta: Value, **options: object) -> Change:
        """Add ``IndexedSlices``."""
        return self._change("scatter_add", (sparse_delta,), options)

    def scatter_sub(self, sparse_delta: Value, **options: object) -> Change:
        """Subtract ``IndexedSlices``."""
        return self._change("scatter_sub", (sparse_delta,), options)

    def scatter_update(self, sparse_delta: Value, **options: object) -> Change:
        """Assign ``IndexedSlices``."""
        return self._change("scatter_update", (sparse_delta,), options)

    def scatter_max(self, sparse_delta: Value, **options: object) -> Change:
        """Keep the larger of the present values and ``IndexedSlices``."""
        return self._change("scatter_max", (sparse_delta,), options)

    def scatter_min(self, sparse_delta: Value, **options: object) -> Change:
        """Keep the smaller of the present values and ``IndexedSlices``."""
        return self._change("scatter_min", (sparse_delta,), options)

    def scatter_mul(self, sparse_delta: Value, **options: object) -> Change:
        """Multiply by ``IndexedSlices``."""
        return self._change("scatter_mul", (sparse_delta,), options)

    def scatter_div(self, sparse_delta: Value, **options: object) -> Change:
        """Divide by ``IndexedSlices``."""
        return self._change("scatter_div", (sparse_delta,), options)

    def batch_scatter_update(self, sparse_delta: Value, **options: object) -> Change:
        """Assign ``IndexedSlices`` of a batch."""
        return self._change("batch_scatter_update", (sparse_delta,), options)

    def scatter_nd_add(self, indices: Value, updates: Value, **options: object) -> Change:
        """Add at indices of elements or slices."""
        return self._change("scatter_nd_add", (indices, updates), options)

    def scatter_nd_sub(self, indices: Value, updates: Value, **options: object) -> Change:
        """Subtract at indices of elements or slices."""
        return self._change("scatter_nd_sub", (indices, updates), options)

    def scatter_nd_update(self, indices: Value, updates: Value, **options: object) -> Change:
        """Assign at indices of elements or slices."""
        return self._change("scatter_nd_update", (indices, updates), options)


@with_operators
class DistributedVariable(ChangingMethods, DistributedValues, Trackable):
    """Variable with a component on each of several devices.

    It is not a ``tf.Variable``: ``tf.train.Saver`` would use the handle of one that is given under another name, and
    restore one component only, while it saves and restores this one as a whole. Functions that treat variables and
    tensors differently take it for a tensor: an average of ``tf.train.ExponentialMovingAverage`` starts from zero, and
    one of `DistributedMovingAverage` from the value.

    Args:
        index: the component of each device; the first one is the primary one.
        aggregation: the ``tf.VariableAggregation`` of the towers' assignments or components.

    Attributes:
        differs_between_towers: whether each tower has a value of its own.

    Source:
        The distributed variables that the seed ``cross_tower_ops`` takes as destinations.
    """

    differs_between_towers = False

    def __init__(self, index: Mapping[str, BaseVariable], aggregation: tf.VariableAggregation) -> None:
        super().__init__(index)
        self._primary = next(iter(self._index.values()))
        self._aggregation = aggregation
        with tf.init_scope(), tf.name_scope(f"{self._primary.op.name}/initialize_all/"):
            # TensorFlow's ``init_from_checkpoint`` sets these two.
            self._initializer_op = tf.group(*(component.initializer for component in self._index.values()))
        self._initial_value = self._primary.initial_value
        for component in self._index.values():
            # TensorFlow's optimizers find the variable of a component by this name.
            component._distributed_container = weakref.ref(self)

    @property
    def components(self) -> list[BaseVariable]:
        """The plain variables, in the order of the devices."""
        return list(self._index.values())

    @property
    def primary(self) -> BaseVariable:
        """The component of the first device."""
        return self._primary

    @property
    def aggregation(self) -> tf.VariableAggregation:
        """The aggregation of the towers' assignments or components."""
        return self._aggregation

    @property
    def name(self) -> str:
        """The name of the primary component."""
        return str(self._primary.name)

    @property
    def op(self) -> tf.Operation:
        """The operation of the primary component, whose name is the variable's in checkpoints."""
        return self._primary.op

    @property
    def _shared_name(self) -> str:
        return str(self._primary.op.name)

    _save_slice_info = None
    _in_graph_mode = True
    ref = BaseVariable.ref
    experimental_ref = BaseVariable.ref

    @property
    def graph(self) -> tf.Graph:
        """The graph."""
        return self._primary.graph

    @property
    def dtype(self) -> tf.DType:
        """The dtype."""
        return self._primary.dtype

    @property
    def shape(self) -> tf.TensorShape:
        """The shape."""
        return self._primary.shape

    def get_shape(self) -> tf.TensorShape:
        """Return the shape."""
        return self.shape

    def set_shape(self, shape: tf.TensorShape | Sequence[int | None]) -> None:
        """Declare the shape."""
        for component in self.components:
            component.set_shape(shape)

    @property
    def trainable(self) -> bool:
        """Whether it is trained."""
        return bool(self._primary.trainable)

    @property
    def synchronization(self) -> tf.VariableSynchronization:
        """The synchronization of the components."""
        return self._primary.synchronization

    @property
    def constraint(self) -> Callable[[tf.Tensor], tf.Tensor] | None:
        """The constraint for optimizers, or None."""
        return self._primary.constraint

    @property
    def initial_value(self) -> tf.Tensor:
        """The initial value of the primary component."""
        return self._initial_value

    def initialized_value(self) -> tf.Tensor:
        """Return the value, or before initialisation the initial one."""
        return tf.cond(self.is_initialized(), self.read_value, lambda: self.initial_value)

    @property
    def initializer(self) -> tf.Operation:
        """The operation that initialises all components."""
        return self._initializer_op

    def is_initialized(self, name: str | None = None) -> tf.Tensor:
        """Return a boolean tensor: whether all components are initialised."""
        states = []
        for device, component in self._index.items():
            with on_device(device):
                states.append(component.is_initialized())
        return tf.reduce_all(tf.stack(states), name=name)

    @property
    def device(self) -> str:
        """The device of the current component."""
        return str(self.component().device)

    @property
    def handle(self) -> tf.Tensor:
        """The handle of the current component; ``tf.gradients`` differentiates with respect to it."""
        return self.component().handle

    def _should_act_as_resource_variable(self) -> None:
        """Exist, which makes TensorFlow differentiate with respect to `handle`."""

    def component(self) -> BaseVariable:
        """Return the component of the current tower, update or device, or else the primary one."""
        key = self._key_here() or device_key(current_device())
        return self._index.get(key, self._primary)

    def value(self) -> tf.Tensor:
        """Return the current value as a tensor; across towers that is the aggregate of a tower-local variable."""
        value = self.get()
        return value.value() if isinstance(value, BaseVariable) else value

    def read_value(self) -> tf.Tensor:
        """Return a tensor that reads the current value, after its control dependencies."""
        return tf.identity(self.value())

    def eval(self, session: tf.Session | None = None) -> np.ndarray:
        """Return the value in a session as an array."""
        return self.value().eval(session=session)

    def load(self, value: npt.ArrayLike, session: tf.Session | None = None) -> None:
        """Set all components in a session through their initialisers, so that the graph does not grow."""
        initializers = [component.initializer for component in self.components]
        values = self.split_value(np.asarray(value, self.dtype.as_numpy_dtype))
        feeds = {op.inputs[1]: part for op, part in zip(initializers, values, strict=True)}
        (session or tf.get_default_session()).run(initializers, feeds)

    def split_value(self, value: TensorOrArray) -> list[TensorOrArray]:
        """Return the value of each component for a tensor or array to be the variable's value across towers."""
        return [value] * len(self._index)

    def sparse_read(self, indices: TensorOrArray, name: str | None = None) -> tf.Tensor:
        """Return the slices at ``indices``, as ``tf.gather`` does."""
        return tf.gather(self.get(), indices, name=name)

    def gather_nd(self, indices: TensorOrArray, name: str | None = None) -> tf.Tensor:
        """Return the elements at ``indices``, as ``tf.gather_nd`` does."""
        return tf.gather_nd(self.get(), indices, name=name)

    def count_up_to(self, limit: int) -> NoReturn:
        """Raise a `StrategyError`: the operation would count one component."""
        raise StrategyError(
            f"{self.op.name} cannot count up to {limit!r} on {len(self._index)} devices: use assign_add"
        )

    def __bool__(self) -> bool:
        return bool(self.value())

    def __getattr__(self, name: str) -> Any:
        # Other attributes of a component may belong to that component alone.
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}; its components may have it")

    def to_proto(self, export_scope: str | None = None) -> object:
        """Return the primary component as a message: an exported graph has a plain variable."""
        return self._primary.to_proto(export_scope)

    def _gather_saveables_for_checkpoint(self) -> dict[str, Callable[..., Any]]:
        """Return the saveables for TensorFlow's savers, which may give it another name."""
        return {
            VARIABLE_VALUE_KEY: lambda name="": SaveableValue(
                self,
                name or self.op.name,
                self._saved_value,
                lambda value: assign_to_components(self, value),
                self.primary.device,
            )
        }

    def _saved_value(self) -> tf.Tensor:
        """Return the value across towers, for saving."""
        raise NotImplementedError

    def _as_graph_element(self) -> tf.Tensor:
        """Return an existing operation for sessions that fetch the value, since their graph may be final."""
        return self.component()._as_graph_element()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.op.name!r} {self.shape} {self.dtype.name} on {', '.join(self.devices)}>"


def assign_to_components(variable: DistributedVariable, value: TensorOrArray) -> tf.Operation:
    """Return one operation that makes a tensor the variable's value across towers."""
    assigned = []
    parts = variable.split_value(tf.convert_to_tensor(value, variable.dtype))
    for (device, component), part in zip(variable.index.items(), parts, strict=True):
        with on_device(device):
            assigned.append(component.assign(tf.identity(part), read_value=False))
    return tf.group(*assigned)


def replace_in_collections(variable: DistributedVariable) -> None:
    """Replace a variable's components in the graph's collections by the variable, in the place of the first one."""
    components = {id(component) for component in variable.components}
    for key in variable.graph.get_all_collection_keys():
        items = variable.graph.get_collection_ref(key)
        if any(id(item) in components for item in items):
            kept = [variable if item is variable.primary else item for item in items]
            items[:] = [item for item in kept if id(item) not in components]


def _to_tensor(
    variable: DistributedVariable, dtype: tf.DType | None = None, name: str | None = None, as_ref: bool = False
) -> tf.Tensor:
    value = tf.convert_to_tensor(variable.value(), dtype=dtype, name=name)
    if name is None or not name.startswith(_TABLE_NAME):
        return value
    if name != _TABLE_NAME:
        # The rows are colocated with this. For the other name, TensorFlow reads all rows if it is on their device.
        with tf.device(variable.device):
            value = tf.identity(value)
    # What has this method, ``tf.gather`` calls it. Otherwise the whole table would be read in each step, and copied
    # too, because TensorFlow copies on reading what is updated row by row (tensorflow/tensorflow#54105).
    value.sparse_read = variable.sparse_read
    return value


# Before that of `Mirrored`, which mirrored variables are too.
tf.register_tensor_conversion_function(DistributedVariable, _to_tensor, priority=99)
