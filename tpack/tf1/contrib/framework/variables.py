"""Variables of ``tf.contrib.framework``: made into collections, and found by scope, name and suffix."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib.framework.scoping import add_arg_scope
from tpack.tf1.signatures import like
from tpack.tower.context import add_model_variable as add_to_model
from tpack.utils.validation import shown

KEYS = tf.GraphKeys
_AUTO = tf.VariableSynchronization.AUTO
_NO_AGGREGATION = tf.VariableAggregation.NONE


@add_arg_scope
def variable(
    name: str,
    shape: Any = None,
    dtype: tf.DType | None = None,
    initializer: Any = None,
    regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    trainable: bool = True,
    collections: Iterable[str] | None = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Callable[..., tf.Variable] | None = None,
    use_resource: bool | None = None,
    synchronization: tf.VariableSynchronization = _AUTO,
    aggregation: tf.VariableAggregation = _NO_AGGREGATION,
) -> tf.Variable:
    """Make or find a variable, as ``tf.get_variable`` does, in collections, and on a device.

    ``device`` is also a function of the operation, such as a `VariableDeviceChooser`. Returned is the variable, or its
    parts as a ``PartitionedVariable``.
    """
    given = locals()
    given["collections"] = [KEYS.GLOBAL_VARIABLES] if collections is None else list(dict.fromkeys(collections))
    getter = given.pop("custom_getter") or tf.get_variable
    with tf.device(given.pop("device") or ""):
        return getter(given.pop("name"), **given)


@add_arg_scope
@like(variable, dtype=tf.float32)
def model_variable(collections: Iterable[str] | None, **given: Any) -> tf.Variable:
    """Make or find a variable, as `variable` does, that is also in GLOBAL_VARIABLES and MODEL_VARIABLES."""
    made = variable(**given, collections=[*(collections or []), KEYS.GLOBAL_VARIABLES])
    add_model_variable(made)
    return made


def local_variable(
    initial_value: Any, validate_shape: bool = True, name: str | None = None, use_resource: bool | None = None
) -> tf.Variable:
    """Make a variable that is not trained and not saved, in LOCAL_VARIABLES."""
    return tf.Variable(**locals(), trainable=False, collections=[KEYS.LOCAL_VARIABLES])


@like(local_variable)
def global_variable(**given: Any) -> tf.Variable:
    """Make a variable that is not trained, in GLOBAL_VARIABLES."""
    return tf.Variable(**given, trainable=False, collections=[KEYS.GLOBAL_VARIABLES])


def parts_of(var: tf.Variable) -> list[tf.Variable]:
    """Return the parts of a partitioned variable, or a list of the variable."""
    return list(var) if hasattr(var, "as_tensor") else [var]


def add_model_variable(var: tf.Variable) -> None:
    """Add a variable to MODEL_VARIABLES, once."""
    for part in parts_of(var):
        add_to_model(part)


def get_variables(
    scope: Any = None, suffix: str | None = None, collection: str = KEYS.GLOBAL_VARIABLES
) -> list[tf.Variable]:
    """Return the variables of a collection by scope and suffix.

    Args:
        scope: a variable scope, or a pattern that names begin with; None for all.
        suffix: the end of the names; None for any.
        collection: the key of the collection.
    """
    pattern = scope.name if isinstance(scope, tf.VariableScope) else scope
    if suffix is not None:
        pattern = (pattern or "") + ".*" + (suffix if ":" in suffix else suffix + ":")
    return tf.get_collection(collection, pattern)


def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[tf.Variable]:
    """Return variables of MODEL_VARIABLES by scope and suffix."""
    return get_variables(scope, suffix, KEYS.MODEL_VARIABLES)


def get_local_variables(scope: Any = None, suffix: str | None = None) -> list[tf.Variable]:
    """Return variables of LOCAL_VARIABLES by scope and suffix."""
    return get_variables(scope, suffix, KEYS.LOCAL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[tf.Variable]:
    """Return variables of TRAINABLE_VARIABLES by scope and suffix."""
    return get_variables(scope, suffix, KEYS.TRAINABLE_VARIABLES)


def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[tf.Variable]:
    """Return the variables whose names end in a suffix."""
    return get_variables(scope=scope, suffix=suffix)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[tf.Variable]:
    """Return the variables of a name, which may have some of its scopes."""
    pattern = re.compile(f"(^|/){given_name}:")
    return [var for var in get_variables(scope) if pattern.search(var.name)]


def get_unique_variable(var_op_name: str) -> tf.Variable:
    """Return the variable of a name, with all scopes; raise ConfigError if there is none."""
    for var in get_variables(var_op_name):
        if var.op.name == var_op_name:
            return var
    raise ConfigError(
        f"got var_op_name={shown(var_op_name)}: expected the name of a variable of the graph, with its scopes"
    )


def get_variable_full_name(var: tf.Variable) -> str:
    """Return the name under which a variable is saved; of a part, that of the whole."""
    slice_info = getattr(var, "_save_slice_info", None)
    return slice_info.full_name if slice_info is not None else var.op.name


def get_variables_to_restore(
    include: Sequence[Any] | None = None, exclude: Sequence[Any] | None = None
) -> list[tf.Variable]:
    """Return the variables in some scopes, without those in others; raise WrongTypeError if one is not a list."""
    for name, value in (("include", include), ("exclude", exclude)):
        if value is not None and not isinstance(value, list | tuple):
            raise WrongTypeError(f"got {name}={shown(value)}: expected a list of scopes or None")
    included = get_variables() if include is None else [var for scope in include for var in get_variables(scope)]
    excluded = {var.ref() for scope in exclude or () for var in get_variables(scope)}
    return [var for var in included if var.ref() not in excluded]


def filter_variables(
    var_list: Iterable[tf.Variable],
    include_patterns: Sequence[str] | None = None,
    exclude_patterns: Sequence[str] | None = None,
    reg_search: bool = True,
) -> list[tf.Variable]:
    """Return the variables that match any of ``include_patterns``, None for all, and none of ``exclude_patterns``.

    With ``reg_search`` a match is anywhere in the name, else at its beginning.
    """
    find = re.search if reg_search else re.match

    def matches(var: tf.Variable, patterns: str | Sequence[str]) -> bool:
        listed = [patterns] if isinstance(patterns, str) else patterns
        return any(find(pattern, var.op.name) for pattern in listed)

    return [
        var
        for var in var_list
        if (include_patterns is None or matches(var, include_patterns)) and not matches(var, exclude_patterns or ())
    ]


get_global_step = tf.train.get_global_step
create_global_step = tf.train.create_global_step
get_or_create_global_step = tf.train.get_or_create_global_step
assert_global_step = tf.train.assert_global_step


def assert_or_get_global_step(
    graph: tf.Graph | None = None, global_step_tensor: tf.Variable | None = None
) -> tf.Variable | None:
    """Return a checked global step, or that of a graph."""
    if global_step_tensor is None:
        return get_global_step(graph)
    assert_global_step(global_step_tensor)
    return global_step_tensor


class VariableDeviceChooser:
    """Assigns variables to the tasks of a job in turn, as ``device`` of a variable.

    Args:
        num_tasks: of the job; 0 for a single process.
    """

    def __init__(
        self,
        num_tasks: int = 0,
        job_name: str = "ps",
        device_type: str = "CPU",
        device_index: int = 0,
        replica: int | None = None,
    ) -> None:
        self._num_tasks = num_tasks
        self._spec = {"device_type": device_type, "device_index": device_index, "replica": replica}
        self._job_name = job_name
        self._next_task = 0

    def __call__(self, op: tf.Operation) -> str:
        """Return the device for the next variable."""
        spec: dict[str, Any] = dict(self._spec)
        if self._num_tasks > 0:
            spec.update(job=self._job_name, task=self._next_task)
            self._next_task = (self._next_task + 1) % self._num_tasks
        return tf.DeviceSpec(**spec).to_string()
