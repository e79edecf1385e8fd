"""Serve what TensorFlow 1's tests import: TensorFlow's own modules where they are still there, else names of tpack.

Tests of ``tf.contrib.distribute`` and ``tf.contrib.estimator`` import modules by path. `serve_modules` puts a finder in
front of Python's: a module in `PLACES` has the names of tpack's modules, one in `SUPPORT` is a helper of the tests and
is read from the checkout, and any other that TensorFlow 2 does not have is empty, so that a test which needs it says
what it misses. `adapt` lets what is left of TensorFlow 1 do what it did on a machine with two GPUs.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.default_strategy import DEFAULT_STRATEGY
from tpack.distribute.variables.replicated import MirroredVariable, TowerLocalVariable
from tpack.estimator.replicate_model_fn import replicate_model_fn
from tpack.estimator.replicated import VariablePlacement
from tpack.tower.devices import device_key

NUM_GPUS = 2
NUM_CPU_DEVICES = 8

_DISTRIBUTE = "tensorflow.contrib.distribute.python"
_ESTIMATOR = "tensorflow.contrib.estimator.python.estimator"

_CANNED = "tensorflow.python.estimator.canned"

_CONTRIB_ESTIMATOR = ("tpack.tf1.contrib.estimator",)
_PARTS_OF_ESTIMATOR = "baseline dnn dnn_linear_combined exporter extenders head hooks linear logit_fns multi_head"
_CANNED_MODELS = "baseline dnn dnn_linear_combined linear"

SUPPORT = (f"{_DISTRIBUTE}.combinations", f"{_DISTRIBUTE}.strategy_test_lib", f"{_DISTRIBUTE}.single_loss_example")

_GONE = tuple(f"tensorflow.python.{package}" for package in ("estimator", "training", "distribute"))
"""Packages of which TensorFlow 2 has some modules at most."""

PLACES: Mapping[str, Sequence[str]] = {
    f"{_DISTRIBUTE}.mirrored_strategy": ("tpack.distribute.strategies",),
    f"{_DISTRIBUTE}.collective_all_reduce_strategy": ("tpack.distribute.strategies",),
    f"{_DISTRIBUTE}.one_device_strategy": ("tpack.distribute.strategies",),
    f"{_DISTRIBUTE}.parameter_server_strategy": ("tpack.distribute.strategies",),
    f"{_DISTRIBUTE}.cross_tower_ops": ("tpack.distribute.cross_tower_ops", "tpack.distribute.reducer_ops"),
    f"{_DISTRIBUTE}.values": ("tpack.distribute", "tpack.distribute.values"),
    f"{_DISTRIBUTE}.step_fn": ("tpack.distribute",),
    f"{_DISTRIBUTE}.monitor": ("tpack.distribute",),
    f"{_ESTIMATOR}.replicate_model_fn": ("tpack.estimator", "tpack.estimator.replicate_model_fn"),
    **{f"{_ESTIMATOR}.{module}": _CONTRIB_ESTIMATOR for module in _PARTS_OF_ESTIMATOR.split()},
    f"{_ESTIMATOR}.early_stopping": ("tpack.tf1.contrib.estimator", "tpack.tf1.estimator.early_stopping"),
    "tensorflow.contrib.layers.python.layers.layers": ("tpack.tf1.contrib.layers",),
    **{f"{_CANNED}.{module}": ("tpack.tf1.estimator",) for module in _CANNED_MODELS.split()},
    "tensorflow.python.estimator.inputs.numpy_io": ("tpack.tf1.estimator.inputs",),
    "tensorflow.python.estimator.inputs.pandas_io": ("tpack.tf1.estimator.inputs",),
    "tensorflow.python.training.distribute": ("tpack.distribute",),
    "tensorflow.python.training.distribution_strategy_context": ("tpack.distribute",),
    "tensorflow.python.distribute.distribute_config": ("tpack.distribute",),
    "tensorflow.python.estimator.estimator": ("tpack.estimator",),
    "tensorflow.python.estimator.estimator_lib": ("tpack.estimator",),
    "tensorflow.python.estimator.export.export": ("tpack.estimator",),
    "tensorflow.python.estimator.export.export_output": ("tpack.estimator",),
    "tensorflow.python.estimator.exporter": ("tpack.estimator",),
    "tensorflow.python.estimator.model_fn": ("tpack.estimator",),
    "tensorflow.python.estimator.run_config": ("tpack.estimator",),
    "tensorflow.python.estimator.training": ("tpack.estimator",),
    "tensorflow.contrib.optimizer_v2.adagrad": ("tensorflow.python.training.adagrad",),
    "tensorflow.contrib.optimizer_v2.adam": ("tensorflow.python.training.adam",),
    "tensorflow.contrib.optimizer_v2.gradient_descent": ("tensorflow.python.training.gradient_descent",),
    "tensorflow.contrib.optimizer_v2.momentum": ("tensorflow.python.training.momentum",),
    "tf_keras.legacy_tf_layers": (),
    "tf_keras.legacy_tf_layers.normalization": ("tf_keras.src.legacy_tf_layers.normalization",),
    "tensorflow.python.training.device_util": ("tensorflow.python.distribute.device_util",),
}


class MissingName(AttributeError):
    """A name of TensorFlow 1 that tpack does not have."""


class ServedModule(types.ModuleType):
    """A module with the names of others.

    Args:
        name: what it is imported as.
        places: where its names are looked for, in this order.
        own: names that are nowhere.
    """

    def __init__(self, name: str, places: Sequence[str] = (), own: Mapping[str, Any] | None = None) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._places = places
        self.__dict__.update(own or {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for place in self._places:
            module = importlib.import_module(place)
            if hasattr(module, name):
                return getattr(module, name)
        raise MissingName(f"{self.__name__.rpartition('.')[2]}.{name} is not in tpack")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of TensorFlow 1 that TensorFlow 2 does not have."""

    def __init__(self, checkout: Path, own: Mapping[str, Mapping[str, Any]]) -> None:
        self._checkout = checkout
        self._own = own
        self._is_searching = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Return how to load a module, or None for one that is none of ours."""
        if name in SUPPORT:
            return importlib.util.spec_from_file_location(name, self._checkout / f"{name.replace('.', '/')}.py")
        if name in PLACES or name in self._own or (name.startswith("tensorflow.") and self._is_gone(name)):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Make a module that this finder found."""
        return ServedModule(spec.name, PLACES.get(spec.name, ()), self._own.get(spec.name))

    def exec_module(self, module: types.ModuleType) -> None:
        """Have nothing to do: the names are looked up."""

    def _is_gone(self, name: str) -> bool:
        if name.startswith("tensorflow.contrib"):
            return True
        parent, _, last = name.rpartition(".")
        package = sys.modules.get(parent)
        if isinstance(package, ServedModule):
            return True
        path = getattr(package, "__path__", None)
        is_known = name.startswith(_GONE)
        return is_known and path is not None and importlib.machinery.PathFinder.find_spec(name, path) is None


def serve_modules(checkout: Path) -> None:
    """Let this process import the modules of TensorFlow 1.

    Args:
        checkout: the directory of TensorFlow's sources, for the tests' helpers.
    """
    sys.meta_path.insert(0, _Finder(checkout, _own_names()))


class _MultiWorkerTestBase(tf.test.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        raise unittest.SkipTest("needs several workers")

    def run(self, result: Any = None) -> Any:
        # For classes with a setUpClass of their own.
        result.startTest(self)
        result.addSkip(self, "needs several workers")
        result.stopTest(self)


class _Older(type):
    """Stands for a class of variables whose constructor took the primary component as well."""

    kind: type

    def __call__(cls, index: Any, primary: Any, *aggregation: Any) -> Any:
        return cls.kind(index, *(aggregation or (tf.VariableAggregation.NONE,)))

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.kind)


class _MirroredVariable(metaclass=_Older):
    kind = MirroredVariable


class _TowerLocalVariable(metaclass=_Older):
    kind = TowerLocalVariable


def _no_tpu(*arguments: Any, **options: Any) -> None:
    """Stand for what is only called on a TPU, and asked for where a module is imported."""
    raise MissingName("TPUStrategy is not in tpack")


class _VariableDistributionMode:
    SHARED_LOCAL_PARAMETER_SERVER = VariablePlacement.ONE_DEVICE
    SHARED_ROUND_ROBIN = VariablePlacement.ROUND_ROBIN


class _MetricKeys:
    LOSS = "loss"
    LOSS_MEAN = "average_loss"
    LOSS_REGULARIZATION = "regularization_loss"
    ACCURACY = "accuracy"
    ACCURACY_BASELINE = "accuracy_baseline"
    PRECISION = "precision"
    RECALL = "recall"
    AUC = "auc"
    AUC_PR = "auc_precision_recall"
    LABEL_MEAN = "label/mean"
    PREDICTION_MEAN = "prediction/mean"
    ACCURACY_AT_THRESHOLD = "accuracy/positive_threshold_%g"
    PRECISION_AT_THRESHOLD = "precision/positive_threshold_%g"
    RECALL_AT_THRESHOLD = "recall/positive_threshold_%g"
    PROBABILITY_MEAN_AT_CLASS = "probability_mean/class%d"
    AUC_AT_CLASS = "auc/class%d"
    AUC_PR_AT_CLASS = "auc_precision_recall/class%d"
    PROBABILITY_MEAN_AT_NAME = "probability_mean/%s"
    AUC_AT_NAME = "auc/%s"
    AUC_PR_AT_NAME = "auc_precision_recall/%s"


class _PredictionKeys:
    CLASSES = "classes"
    CLASS_IDS = "class_ids"
    LOGISTIC = "logistic"
    LOGITS = "logits"
    PREDICTIONS = "predictions"
    PROBABILITIES = "probabilities"


def _replicate_model_fn_with_mode(model_fn: Any, loss_reduction: Any = None, devices: Any = None, *, mode: Any) -> Any:
    reduction = loss_reduction or tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS
    return replicate_model_fn(model_fn, reduction, devices, variable_placement=mode)


def _own_names() -> dict[str, dict[str, Any]]:
    """Return names that are neither tpack's nor TensorFlow's, by their modules."""
    default = {
        "_default_distribution_strategy": DEFAULT_STRATEGY,
        "_get_default_distribution_strategy": lambda: DEFAULT_STRATEGY,
    }
    tasks = types.SimpleNamespace(CHIEF="chief", WORKER="worker", PS="ps", EVALUATOR="evaluator", MASTER="master")
    return {
        f"{_DISTRIBUTE}.multi_worker_test_base": {"MultiWorkerTestBase": _MultiWorkerTestBase},
        f"{_DISTRIBUTE}.tpu_strategy": {"TPUStrategy": _no_tpu},
        f"{_DISTRIBUTE}.values": {"MirroredVariable": _MirroredVariable, "TowerLocalVariable": _TowerLocalVariable},
        f"{_ESTIMATOR}.replicate_model_fn": {
            "_VariableDistributionMode": _VariableDistributionMode,
            "_replicate_model_fn_with_mode": _replicate_model_fn_with_mode,
        },
        "tensorflow.python.training.distribute": default,
        "tensorflow.python.training.distribution_strategy_context": default,
        "tensorflow.contrib.data.python.ops.batching": {"map_and_batch": _map_and_batch},
        "tensorflow.python.training.device_util": {"resolve": device_key, "canonicalize": device_key},
        "tensorflow.python.estimator.run_config": {"TaskType": tasks},
        "tensorflow.python.estimator.estimator": {"_write_dict_to_summary": _write_results},
        "tensorflow.contrib.predictor": {"from_saved_model": _from_saved_model},
        f"{_CANNED}.metric_keys": {"MetricKeys": _MetricKeys},
        f"{_CANNED}.prediction_keys": {"PredictionKeys": _PredictionKeys},
    }


def _map_and_batch(fn: Callable[..., Any], batch_size: int, drop_remainder: bool = False, **_: Any) -> Any:
    return lambda dataset: dataset.map(fn).batch(batch_size, drop_remainder=drop_remainder)


def _write_results(directory: str, results: Mapping[str, float], step: int) -> None:
    values = [tf.Summary.Value(tag=name, simple_value=value) for name, value in results.items()]
    writer = tf.summary.FileWriterCache.get(directory)
    writer.add_summary(tf.Summary(value=values), step)
    writer.flush()


def _from_saved_model(directory: str, signature_def_key: str) -> Callable[[Mapping[str, Any]], Any]:
    session = tf.Session(graph=tf.Graph())
    with session.graph.as_default():
        signature = tf.saved_model.load(session, ["serve"], directory).signature_def[signature_def_key]
    inputs, outputs = ({key: info.name for key, info in part.items()} for part in (signature.inputs, signature.outputs))
    return lambda fed: session.run(outputs, {inputs[key]: value for key, value in fed.items()})


def adapt() -> None:
    """Let TensorFlow be in graph mode on what looks like a machine with two GPUs, as the tests were written for."""
    names = ("client.session", "eager.context", "eager.function", "framework.test_util", "ops.variable_scope")
    session, context, function, test_util, variable_scope = (
        importlib.import_module(f"tensorflow.python.{name}") for name in names
    )
    tf.disable_v2_behavior()
    columns = importlib.import_module("tensorflow.python.feature_column.feature_column")
    newer = importlib.import_module("tensorflow.python.feature_column.feature_column_v2")
    for name in dir(newer):
        if name.endswith("_column") or name.startswith("categorical_column_with"):
            setattr(columns, name, getattr(newer, name))
    importlib.import_module("tensorflow.python.framework.ops").IndexedSlices = tf.IndexedSlices
    make = session.BaseSession.__init__

    def make_with_devices(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        own = tf.ConfigProto()
        own.CopyFrom(config or tf.ConfigProto())
        own.device_count["CPU"] = NUM_CPU_DEVICES
        own.allow_soft_placement = True
        make(self, target, graph, own)

    session.BaseSession.__init__ = make_with_devices
    variable_scope.variable = tf.Variable
    function.defun = tf.function
    importlib.import_module("tensorflow.python.ops.control_flow_ops").Assert = tf.Assert
    context.num_gpus = lambda: NUM_GPUS
    context.eager_mode = _no_eager_mode
    test_util.run_in_graph_and_eager_modes = _in_graph_mode
    # Of classes that are tested in both of TensorFlow 1.8's ways to build a graph.
    test_util.with_c_api = lambda case: case
    case = test_util.TensorFlowTestCase
    case.assertRaisesRegexp = case.assertRaisesRegex = _assert_raises
    case.assertItemsEqual = case.assertCountEqual
    case.assertEquals = case.assertEqual
    case.assertNotEquals = case.assertNotEqual


@contextmanager
def _no_eager_mode() -> Iterator[None]:
    raise unittest.SkipTest("is of eager mode")
    yield


def _in_graph_mode(function: Any = None, config: Any = None, **_: Any) -> Any:
    """Stand in for the decorator that runs a test in graph mode and in eager mode."""

    def decorate(method: Any) -> Any:
        def run(self: Any, *args: Any, **kwargs: Any) -> None:
            with tf.Graph().as_default(), self.test_session(config=config):
                method(self, *args, **kwargs)

        return run

    return decorate if function is None else decorate(function)


def _assert_raises(self: Any, error: Any, pattern: str, function: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Expect an error of a class; what tpack's errors say is its own."""
    return self.assertRaises(error) if function is None else self.assertRaises(error, function, *args, **kwargs)
