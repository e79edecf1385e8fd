"""Names of TensorFlow that are not public, the features that need them, and what happens where one is missing.

Nothing promises these names. Each belongs to a feature, and each feature has a way out: another way to the same result,
or an error that says in one line what is missing. `tpack doctor` lists what is missing in the installed TensorFlow, and
`tests/meta/test_private_names.py` finds names that are used and not listed.
"""

import functools
import importlib
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow
import tensorflow.compat.v1 as tfv1

OLDEST, NEWEST = (2, 16), (2, 22)
"""The first and the last version of TensorFlow with which all tests pass."""
TESTED = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
"""The versions of TensorFlow that have all names."""


@dataclass(frozen=True)
class PrivateFeature:
    """A feature of tpack that needs private names.

    Attributes:
        name: the feature.
        names: modules below ``tensorflow.python``, and attributes as ``Graph._names_in_use``.
        way_out: what happens without them; "" if the feature raises an error.
    """

    name: str
    names: tuple[str, ...]
    way_out: str = ""


COPIED_TOWERS = "copied towers"
CALLABLES = "calls of fixed fetches"
SESSION_THREADS = "merge calls of towers"
SCOPES = "scopes of towers"
VARIABLE_STORE = "variables of tf.get_variable"
STRATEGIES = "distribution strategies"
SAVED_PARTS = "variables that are saved in parts"
ADDED_NODES = "many operations at once"
NODE_ATTRIBUTES = "attributes of operations"
EDITED_GRAPHS = "changes of operations"
LOOPS = "loops of TensorFlow 1 for several steps"
SEEDS = "seeds in loops and gradients"
EAGER = "eager blocks in graph mode"
KERNELS = "compilation by XLA"
DEVICES = "measured reducers"
TRACES = "traces of steps"
ITERATORS = "iterators of strategies"
LOOKUPS = "tf.contrib.lookup"
NESTS = "nested structures"
SETTINGS = "settings of TensorFlow"
SLOTS = "slots of optimizers"
CONTRIB_ADAM = "tf.contrib.opt's LazyAdamOptimizer and NadamOptimizer"

FEATURES = (
    PrivateFeature(
        COPIED_TOWERS,
        (
            "Graph._names_in_use", "Graph._mutation_lock", "Graph._c_graph", "Graph._create_op_from_tf_operation",
            "Graph._lock", "Operation._c_op", "Tensor._as_tf_output", "VariableStore._vars",
            "tensorflow.python.framework.c_api_util", "tensorflow.python.framework.function",
            "tensorflow.python.framework.random_seed", "tensorflow.python.ops.variable_scope",
            "tensorflow.python.client.pywrap_tf_session", "tensorflow.python.distribute.device_util",
        ),
        "towers are built, as by tower_building='build'",
    ),
    PrivateFeature(
        ADDED_NODES,
        (
            "Graph._mutation_lock", "Graph._c_graph", "Graph._create_op_from_tf_operation", "Graph._lock",
            "Operation._c_op", "Tensor._as_tf_output", "tensorflow.python.framework.c_api_util",
            "tensorflow.python.framework.function", "tensorflow.python.client.pywrap_tf_session",
        ),
        "tf.import_graph_def adds them, unless they are colocated with others",
    ),
    PrivateFeature(
        CALLABLES,
        ("Session._make_callable_from_options",),
        "Session.make_callable runs them; time limits, and kernels in the calling thread, go by Session.run",
    ),
    PrivateFeature(
        SESSION_THREADS,
        (
            "Graph._name_stack", "Graph._device_function_stack", "Graph._colocation_stack",
            "Graph._control_dependencies_stack", "Graph._variable_creator_stack",
            "Graph._control_flow_context", "Graph._default_original_op", "Graph._attr_scope_map",
            "Graph._op_to_kernel_label_map", "Graph._gradient_override_map", "Graph._gradient_function_map",
            "Graph._container", "tensorflow.python.ops.variable_scope",
        ),
        "towers that make no merge call are built without it",
    ),
    PrivateFeature(
        SCOPES,
        (
            "Graph._get_control_flow_context", "Graph._set_control_flow_context",
            "tensorflow.python.ops.variable_scope",
        ),
        "scopes of one name are numbered from the first one in each tower, and towers are outside of tf.while_loop",
    ),
    PrivateFeature(
        VARIABLE_STORE,
        ("VariableStore._vars", "tensorflow.python.ops.variable_scope"),
        "tf.get_variable is asked with reuse=True",
    ),
    PrivateFeature(
        STRATEGIES,
        (
            "Graph._current_control_dependencies", "Graph._ControlDependenciesController",
            "Graph._distribution_strategy_stack", "Graph._last_loss_reduction", "Optimizer._distributed_apply",
            "Graph._control_dependencies_stack", "VariableStore._vars",
            "tensorflow.python.distribute.device_util", "tensorflow.python.distribute.distribute_lib",
            "tensorflow.python.ops.variable_scope",
        ),
    ),
    PrivateFeature(
        SAVED_PARTS,
        (
            "tensorflow.python.trackable.base", "tensorflow.python.training.saving.saveable_object",
        ),
    ),
    PrivateFeature(
        NODE_ATTRIBUTES,
        ("Operation._set_attr", "Operation._set_device"),
        "sums may be added in another order; servers and XLA raise an error",
    ),
    PrivateFeature(
        EDITED_GRAPHS,
        (
            "Operation._update_input", "Operation._add_control_inputs", "Operation._remove_all_control_inputs",
            "Variable._initial_value",
        ),
    ),
    PrivateFeature(
        LOOPS, ("tensorflow.python.ops.control_flow_ops",), "tf.while_loop with control flow of version 1",
    ),
    PrivateFeature(
        SEEDS,
        ("Graph._get_control_flow_context", "Graph._default_original_op"),
        "random operations of layers follow TensorFlow's own seeds",
    ),
    PrivateFeature(EAGER, ("tensorflow.python.eager.context",)),
    PrivateFeature(KERNELS, ("tensorflow.python.framework.kernels",)),
    PrivateFeature(DEVICES, ("tensorflow.python.client.device_lib",)),
    PrivateFeature(TRACES, ("tensorflow.python.client.timeline",)),
    PrivateFeature(ITERATORS, ("tensorflow.python.data.ops.multi_device_iterator_ops",)),
    PrivateFeature(LOOKUPS, ("tensorflow.python.ops.lookup_ops",)),
    PrivateFeature(NESTS, ("tensorflow.python.util.nest",), "tf.nest, which has fewer functions"),
    PrivateFeature(
        SETTINGS,
        (
            "tensorflow.python.util._pywrap_util_port", "tensorflow.python.util.deprecation",
            "tensorflow.python.training.experimental.mixed_precision_global_state",
        ),
        "oneDNN and the rewriting to 16 bits count as switched off, and deprecations are logged",
    ),
    PrivateFeature(SLOTS, ("Optimizer._zeros_slot",)),
    PrivateFeature(
        CONTRIB_ADAM,
        ("Adam._lr_t", "Adam._beta1_t", "Adam._beta2_t", "Adam._epsilon_t", "Adam._get_beta_accumulators"),
    ),
)  # fmt: skip
"""All features, each with the names that it needs."""


def private_module(name: str) -> Any:
    """Return a module below ``tensorflow.python``; where it is missing, an object that says so when it is used."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return _MissingModule(name)


class _MissingModule:
    """Stands for a module that the installed TensorFlow does not have."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        features = ", ".join(feature.name for feature in FEATURES if self._name in feature.names)
        raise missing_error(features, [self._name])

    def __bool__(self) -> bool:
        return False


def missing_error(feature: str, names: list[str]) -> Exception:
    """Return the error of a feature that needs names which are missing."""
    return _dependency_error(
        f"{feature or 'tpack'} got TensorFlow {tensorflow.__version__} without {', '.join(names)}: expected TensorFlow "
        f"{TESTED}, which has all that tpack uses"
    )


def _dependency_error(message: str) -> Exception:
    # Found by way of a module that is loaded before this one: nothing of tpack is imported here.
    error: type[Exception] = sys.modules["tpack.errors"].DependencyError
    return error(message)


def check_version() -> None:
    """Compare the installed TensorFlow with the tested ones: an older one is an error, a newer one a warning.

    The warning lists the features of which a newer one lacks private names, which takes some milliseconds.

    Raises:
        DependencyError: TensorFlow is older than the oldest that is tested.
    """
    major, minor = (int(part) for part in tensorflow.__version__.split(".")[:2])
    if (major, minor) < OLDEST:
        raise _dependency_error(
            f"tpack got TensorFlow {tensorflow.__version__}: expected {TESTED}; use pip install -U tensorflow"
        )
    if (major, minor) > NEWEST:
        missing = [f"{feature.name}: {feature.way_out or 'an error says so'}" for feature, _ in missing_features()]
        warnings.warn(
            f"tpack got TensorFlow {tensorflow.__version__}, which is newer than the tested {TESTED}. Private names "
            f"that it lacks: {'; '.join(missing) or 'none'}; 'tpack doctor' lists them, 'tpack selftest' trains",
            stacklevel=2,
        )


@functools.cache
def missing_names(feature: str) -> tuple[str, ...]:
    """Return the names of a feature that the installed TensorFlow does not have."""
    (found,) = (each for each in FEATURES if each.name == feature)
    return tuple(name for name in found.names if not _is_there(name))


def check_names(feature: str) -> None:
    """Raise an error if names of a feature are missing.

    Raises:
        DependencyError: They are; the message lists them.
    """
    if missing := missing_names(feature):
        raise missing_error(feature, list(missing))


def missing_features() -> list[tuple[PrivateFeature, tuple[str, ...]]]:
    """Return the features of which names are missing, with these names."""
    found = [(feature, missing_names(feature.name)) for feature in FEATURES]
    return [(feature, names) for feature, names in found if names]


def _is_there(name: str) -> bool:
    if name.startswith("tensorflow."):
        return bool(private_module(name))
    owner, _, attribute = name.partition(".")
    return any(hasattr(each, attribute) for each in _examples()[owner]())


@functools.cache
def _examples() -> dict[str, Callable[[], list[Any]]]:
    """Return functions for the objects that have private attributes, by the first part of the name."""
    graph = tfv1.Graph()
    with graph.as_default():
        variable = tfv1.get_variable("w", [], use_resource=True)
        tensor = variable.read_value()
    store = private_module("tensorflow.python.ops.variable_scope")

    def stores() -> list[Any]:
        with graph.as_default():
            return [store._get_default_variable_store()] if store else []

    return {
        "Graph": lambda: [graph],
        "Operation": lambda: [tensor.op],
        "Tensor": lambda: [tensor],
        "Variable": lambda: [variable],
        "Session": lambda: [tfv1.Session],
        "Optimizer": lambda: [tfv1.train.Optimizer],
        "Adam": lambda: [tfv1.train.AdamOptimizer()],
        "VariableStore": stores,
    }
