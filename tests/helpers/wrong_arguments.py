"""A generator of wrong arguments for every public class and function, by the types of their parameters.

`members` finds what is public. `cases_of` yields, for one of them, each parameter with each value that it cannot take,
while all others are right; `outcome` calls it and says what happened. What is right for a parameter stands in `RIGHT`,
by its name.
"""

import importlib
import inspect
import math
import pkgutil
import re
import signal
import sys
import tempfile
import types
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow.compat.v1 as tf

import tpack
from tpack.compat.runtime import eager_mode
from tpack.errors import TpackError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.tower.context import TrainTowerContext

LONGEST_SECS = 300
MODULES_WITH_NAMES = ("gradproc", "sesscreate", "sessinit", "summary", "varreplace", "optimizer")


class Strange:
    """An object that no parameter wants; data in it must not be printed."""

    def __repr__(self):
        return "<SECRET DATA>"


@dataclass(frozen=True)
class Case:
    """One wrong argument: `label` says what kind of wrong, `value` is it."""

    module: str
    name: str
    parameter: str
    label: str
    value: object

    def __str__(self):
        return f"{self.module}.{self.name}({self.parameter}={self.label})"


def members():
    """Return {name: (module that defines it, object)} of all public classes and functions.

    Those of `tpack.tf1` and `tpack.legacy` take what TensorFlow 1 and tensorpack took, whose arguments have no
    types to be held to; their own tests say what they refuse.
    """
    found, seen = {}, set()
    walked = [m.name for m in pkgutil.walk_packages(tpack.__path__, "tpack.") if m.ispkg]
    packages = ["tpack", *(name for name in walked if not f"{name}.".startswith("tpack.tf1."))]
    for source in [*packages, *(f"tpack.tfutils.{name}" for name in MODULES_WITH_NAMES)]:
        module = importlib.import_module(source)
        for name in getattr(module, "__all__", ()):
            member = getattr(module, name)
            is_older = getattr(member, "__module__", "").startswith("tpack.legacy.")
            if _takes_arguments(member) and not is_older and id(member) not in seen:
                seen.add(id(member))
                key = name if name not in found else f"{source.rsplit('.')[-1]}.{name}"
                found[key] = (getattr(member, "__module__", source), member)
    return found


def _takes_arguments(member):
    is_error = inspect.isclass(member) and issubclass(member, BaseException)
    return callable(member) and not is_error and not inspect.isabstract(member)


def parameters_of(member):
    """Return the named parameters of a member; none if it says nothing about them."""
    try:
        parameters = inspect.signature(member).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


def kinds_of(parameter):
    """Return the kinds that a parameter's annotation allows: words such as int, str, None, Sequence, DataFlow."""
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        return {"Any"}
    text = annotation if isinstance(annotation, str) else _written(annotation)
    # What stands in brackets says what is inside, not what the argument itself may be.
    while re.search(r"\[[^\[\]]*\]", text):
        text = re.sub(r"\[[^\[\]]*\]", "", text)
    kinds = {part.strip().rsplit(".")[-1] for part in text.split("|")}
    kinds |= {"float"} if "ArrayLike" in kinds else set()
    return kinds | ({"None"} if parameter.default is None else set())


def _written(annotation):
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return "None" if annotation is type(None) else annotation.__name__
    text = str(annotation)
    if text.startswith("typing.Union["):
        return "|".join(_written(part) for part in annotation.__args__)
    if text.startswith("typing.Literal["):
        return "Literal"
    return text


# What is wrong, and for which kinds: (label, value, kinds that may take it, kinds of which one must be there).
NUMBERS = {"int", "float", "SupportsIndex", "Number"}
MANY = {"Sequence", "Iterable", "list", "tuple"}
UNKNOWN = {"Any", "object", "~F", "Tensors", "Runnable", "Fetches", "Structure"}
WRONG = (
    ("an object", Strange(), set(), set()),
    ("None", None, {"None"}, set()),
    ("text", "seven", {"str", "PathLike", "Literal", "ArrayLike", "DTypeLike", *MANY}, set()),
    ("a number", 5, {"bool", "ArrayLike", "DTypeLike", *NUMBERS}, set()),
    ("True", True, {"bool"}, NUMBERS),
    ("nan", math.nan, set(), NUMBERS),
    ("digits", "3", {"str"}, NUMBERS),
    ("2.5", 2.5, {"float"}, {"int"}),
    ("hugely negative", -(10**9), {"float"}, {"int"}),
    ("no", "no", {"str"}, {"bool"}),
    ("2", 2, NUMBERS, {"bool"}),
    ("bytes", b"x", {"Mapping", *MANY}, {"str"}),
)


def wrong_values(parameter):
    """Yield (label, value) for each value that a parameter cannot take."""
    kinds = kinds_of(parameter)
    if kinds & UNKNOWN:
        return
    for label, value, takers, needed in WRONG:
        if not kinds & takers and (not needed or kinds & needed):
            yield label, value
    if kinds <= MANY:
        yield "a function", len
    if kinds <= MANY and not re.search("Any|object", str(parameter.annotation)):
        yield "objects", [Strange(), Strange()]


def cases_of(key, module, member):
    """Yield a `Case` for each wrong value of each parameter."""
    for parameter in parameters_of(member):
        for label, value in wrong_values(parameter):
            yield Case(module, key, parameter.name, label, value)


class HangsError(Exception):
    """A call did not end."""


@contextmanager
def surroundings():
    """Give a fresh graph, tower and directory to one call, and end it when it hangs."""

    def hang(*_):
        raise HangsError

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(LONGEST_SECS)
    try:
        with ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(tf.Graph().as_default())
            tf.train.create_global_step()
            stack.enter_context(TrainTowerContext("tower0"))
            yield directory
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def call(key, member, overrides, directory):
    """Call a member with right arguments, apart from the overrides."""
    overrides = {**{name: right_value(key, name, directory) for name in COMPLETE.get(key, ())}, **overrides}
    positional, named = [], {}
    for parameter in parameters_of(member):
        if parameter.name in overrides:
            value = overrides[parameter.name]
        elif parameter.default is not inspect.Parameter.empty:
            continue
        else:
            value = right_value(key, parameter.name, directory)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[parameter.name] = value
    if member.__module__.startswith("tpack.models.") and key[0].isupper() and key != "LinearWrap":
        # A registered layer takes its name first, and its input by place.
        positional = ["layer", named.pop(next(iter(named)))]
    result = member(*positional, **named)
    if hasattr(result, "__enter__") and isinstance(result, sys.modules["contextlib"]._GeneratorContextManager):
        with result:
            pass
    return result


def right_value(key, name, directory):
    """Return what is right for a parameter."""
    make = RIGHT.get(f"{key}.{name}", RIGHT.get(name))
    if make is None:
        raise LookupError(f"tests.helpers.wrong_arguments.RIGHT says nothing of {key}.{name}")
    return make(directory) if len(inspect.signature(make).parameters) else make()


def outcome(case, member):
    """Return None if the wrong argument is refused as it should be, otherwise what happened instead."""
    with surroundings() as directory:
        try:
            call(case.name, member, {case.parameter: case.value}, directory)
        except TpackError as error:
            message = str(error)
            if str(Strange()) in message:
                return f"prints data: {message}"
            words = (case.parameter, *ALSO_SAID.get(f"{case.name}.{case.parameter}", ALSO_SAID.get(case.parameter, ())))
            is_named = any(re.search(rf"\b{word}\b", message) for word in words)
            return None if is_named else f"does not name the argument: {message}"
        except HangsError:
            return "hangs"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "accepted"


def _keras_model():
    with eager_mode():
        model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    return model


def _flow():
    return tpack.FakeData([[4, 4, 3], [4]], size=16, dtype=["uint8", "int32"], domain=[(0, 255), (0, 9)])


def _image():
    return tf.zeros([2, 4, 4, 3])


def _optimizer():
    return tf.train.GradientDescentOptimizer(0.1)


def _lines(directory):
    path = f"{directory}/file"
    with open(path, "w") as file:
        file.write("1 1:0.5\n")
    return path


def _devices(count=2):
    return [f"/cpu:{k}" for k in range(count)]


def _tower_func():
    return tpack.tower.TowerFunc(lambda x: tf.identity(x, "out"), [tf.TensorSpec([None, 4], tf.float32, "x")])


def _predict_config():
    return tpack.PredictConfig(
        tower_func=lambda x: tf.identity(x, "out"),
        input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")],
        input_names=["x"],
        output_names=["out"],
    )


def _callback():
    return tpack.CallbackFactory(trigger=lambda _: None)


def _predictor():
    return tpack.OnlinePredictor([tf.placeholder(tf.float32, [None])], [tf.zeros([1])], sess=tf.Session())


def _reducer():
    return tpack.reduction.reducer_for_spec("xring", _devices())


def _member():
    return ClusterMember({"worker": ("127.0.0.1:1", "127.0.0.1:2")}, "worker", 0)


def _group():
    return WorkerGroup(["/job:worker/task:0"], 0, "run")


def _gradients():
    return [[tf.ones([3]), tf.ones([2])] for _ in range(2)]


# What is right for a parameter of this name; "Class.name" comes before "name".
RIGHT = {
    "KerasModel.model": _keras_model,
    "KerasModel.optimizer": lambda: "sgd",
    "KerasModel.loss": lambda: "mse",
    "KerasModel.metrics": lambda: ["mae"],
    "KerasModel.input_signature": lambda: tf.TensorSpec([None, 4], tf.float32, "x"),
    "KerasModel.target_signature": lambda: tf.TensorSpec([None, 1], tf.float32, "y"),
    "find_batch_size.make": lambda: lambda batch_size: None,
    "find_learning_rate.config": lambda: tpack.TrainConfig(dataflow=_flow(), model=tpack.ModelDesc()),
    "find_learning_rate.name": lambda: "learning_rate",
    "fit.model": _keras_model,
    "fit.data": lambda: (np.zeros([4, 4]), np.zeros([4, 1])),
    "fit.validation_data": lambda: (np.zeros([4, 4]), np.zeros([4, 1])),
    "fit.towers": lambda: 1,
    "fit.epochs": lambda: 1,
    "LARS.learning_rate": lambda: 0.1,
    "DataFromArrays.arrays": lambda: np.zeros([4, 2]),
    "MultiWorkerStrategyTrainer.strategy": lambda: tpack.CollectiveAllReduceStrategy(1),
    "ScaleWithWorkers.rule": lambda: "linear",
    "apply_every.steps": lambda: 1,
    "apply_every.towers": lambda: [[(tf.ones([3]), tf.get_variable("updated", [3]))]],
    "apply_every.apply": lambda: lambda grads: tf.no_op(),
    "LocalSteps.sync_every_steps": lambda: 8,
    "LocalStepsBuilder.steps": lambda: tpack.graph_builder.LocalSteps(8),
    "LocalStepsBuilder.towers": lambda: 2,
    "group": _group,
    "member": _member,
    "copy_from_worker.variables": lambda: [tf.get_variable("copied", [2])],
    "broadcast_.variables": lambda: [tf.get_variable("copied", [2])],
    "broadcast_variables.variables": lambda: [tf.get_variable("copied", [2])],
    "root_rank": lambda: 0,
    "start_timeline.file_path": lambda: "timeline.json",
    "all_reduce_between_workers.grads": lambda: [tf.ones([3])],
    "Cast.dtype": lambda: "float16",
    "OneBitAdam.freeze_step": lambda: 1,
    "Recompute.blocks": lambda: "block",
    "Unfreeze.epochs": lambda: {0: "head"},
    "TopK.ratio": lambda: 0.1,
    "make_exchange.text": lambda: "int8",
    "sharded_embedding.ids": lambda: [1, 2],
    "sharded_embedding.rows": lambda: 7,
    "sharded_embedding.width": lambda: 2,
    "sharded_embedding.dtype": lambda: tf.float32,
    "WorkerGroup.tasks": lambda: ["/job:worker/task:0"],
    "WorkerGroup.rank": lambda: 0,
    "WorkerGroup.run": lambda: "run",
    "task_device.rank": lambda: 0,
    "addr": lambda: "tcp://127.0.0.1:5555",
    "addr1": lambda: "tcp://127.0.0.1:5555",
    "end_point": lambda: "tcp://127.0.0.1:5555",
    "all_grads": _gradients,
    "attrname": lambda: "real",
    "aug": lambda: tpack.imgaug.Flip(horiz=True),
    "aug_lists": lambda: [tpack.imgaug.Flip(horiz=True)],
    "augmentors": lambda: [tpack.imgaug.Flip(horiz=True)],
    "average": lambda: True,
    "background_shape": lambda: 8,
    "backup": lambda: {},
    "batch_size": lambda: 2,
    "bucket_bytes": lambda: 1024,
    "buffer_size": lambda: 4,
    "builder": lambda: tpack.SimpleBuilder(),
    "callback": _callback,
    "cb": _callback,
    "triggerable": _callback,
    "cbs": lambda: [_callback()],
    "command": lambda: "true {cost}",
    "config": _predict_config,
    "launch_train_with_config.config": lambda: tpack.TrainConfig(dataflow=_flow(), model=tpack.ModelDesc()),
    "crop_shape": lambda: 2,
    "dataset": _flow,
    "decay": lambda: 0.9,
    "decoder": lambda: lambda key, value: [key, value],
    "delta": lambda: 0.1,
    "device": lambda: "/cpu:0",
    "device_for_small_variables": lambda: "/cpu:0",
    "devices": lambda: _devices(),
    "df": _flow,
    "df_lists": lambda: [_flow(), _flow()],
    "dim": lambda: 1,
    "dir": lambda directory: directory,
    "ds": _flow,
    "eigval": lambda: [1.0, 1.0, 1.0],
    "eigvec": lambda: np.eye(3),
    "factor_range": lambda: (0.5, 1.5),
    "feature_spec": lambda: {"x": tf.io.FixedLenFeature([4], tf.float32)},
    "features": lambda: {"x": tf.zeros([1])},
    "filename": _lines,
    "files": lambda: ["a.png"],
    "filters": lambda: 4,
    "fn": lambda: lambda *values: None,
    "func": lambda: lambda *values: values[0],
    "gen": lambda: lambda: iter([[1]]),
    "get_df": lambda: _flow,
    "get_tensor_fn": lambda: lambda: [tf.zeros([1])],
    "global_norm": lambda: 1.0,
    "gpus": lambda: [0],
    "gradprocs": lambda: [tpack.gradproc.GlobalNormClip(1.0)],
    "graph": tf.get_default_graph,
    "h_range": lambda: 2,
    "w_range": lambda: 2,
    "hmin": lambda: 2,
    "wmin": lambda: 2,
    "hook": tf.train.SessionRunHook,
    "idx": lambda: 0,
    "idxs": lambda: [0],
    "infs": lambda: tpack.ScalarStats("cost"),
    "inner": _reducer,
    "outer": _reducer,
    "reducer": _reducer,
    "input": lambda: tpack.FeedInput(_flow()),
    "input_fn": lambda: lambda: None,
    "input_signature": lambda: [tf.TensorSpec([None, 4], tf.float32, "x")],
    "input_source": lambda: tpack.QueueInput(_flow()),
    "inputs": _image,
    "input_tensors": lambda: [tf.placeholder(tf.float32, [None])],
    "output_tensors": lambda: [tf.zeros([1])],
    "is_training": lambda: True,
    "iterable": lambda: [[1], [2]],
    "keys": lambda: ["losses"],
    "kernel_size": lambda: 3,
    "pool_size": lambda: 2,
    "label_tensor_name": lambda: "label",
    "pred_tensor_name": lambda: "pred",
    "last_k": lambda: 3,
    "layers": lambda: tpack.Conv2D,
    "lmdb_data": _flow,
    "lst": lambda: [[1], [2]],
    "map_func": lambda: lambda point: point,
    "max_deg": lambda: 10.0,
    "method": lambda: "spawn",
    "mode": lambda: "train",
    "model_fn": lambda: lambda features, labels, mode: None,
    "model_path": lambda: "model-1",
    "module": lambda: math,
    "monitor": lambda: "validation_loss",
    "monitor_stat": lambda: "validation_error",
    "MaxSaver.monitor_stat": lambda: "validation_accuracy",
    "monitors": lambda: [tpack.JSONWriter()],
    "multipliers": lambda: ("w", 2.0),
    "name": lambda: "train",
    "names": lambda: ["cost"],
    "niter": lambda: 2,
    "nr_proc": lambda: 2,
    "num": lambda: 2,
    "num_classes": lambda: 10,
    "num_gpus_per_worker": lambda: 2,
    "num_prefetch": lambda: 2,
    "num_proc": lambda: 2,
    "num_shards": lambda: 2,
    "num_thread": lambda: 2,
    "num_unit": lambda: 1,
    "obj": lambda: [[1]],
    "op": tf.no_op,
    "opt": _optimizer,
    "optimizer": _optimizer,
    "optimizer_fn": lambda: _optimizer,
    "optimizer_or_optimizer_fn": _optimizer,
    "param": lambda: "learning_rate",
    "path": _lines,
    "peers": lambda: (),
    "predictors": lambda: [],
    "pred": lambda: lambda _: True,
    "prob": lambda: 0.5,
    "ps_devices": lambda: _devices(),
    "queue": lambda: __import__("queue").Queue(),
    "range": lambda: (0.5, 1.5),
    "reducers": lambda: [(_reducer(), 10), (_reducer(), None)],
    "regex": lambda: "W",
    "rmax": lambda: 2.0,
    "dmax": lambda: 2.0,
    "schedule": lambda: [(1, 0.1)],
    "sec": lambda: 5.0,
    "seed": lambda: 5,
    "serving_input_receiver_fn": lambda: lambda: None,
    "sess_inits": lambda: [],
    "session_creator": lambda: tpack.sesscreate.NewSessionCreator(),
    "shape": lambda: 2,
    "shapes": lambda: [[4]],
    "shuffle": lambda: False,
    "size": lambda: 4,
    "small_variable_size_threshold": lambda: 10,
    "spec": lambda: "naive",
    "startable": lambda: __import__("threading").Thread(),
    "stat_name": lambda: "validation_error",
    "std": lambda: 0.1,
    "strategy": lambda: tpack.OneDeviceStrategy("/cpu:0"),
    "tensor": _image,
    "tensor_name": lambda: "x",
    "tensors": lambda: ["cost"],
    "threshold": lambda: 0.1,
    "timeout_in_ms": lambda: 1000,
    "timeout_secs": lambda: 100.0,
    "tower_fn": lambda: lambda x: x,
    "tower_func": _tower_func,
    "tower_name": lambda: "tower1",
    "towers": lambda: [0],
    "train_or_test": lambda: "train",
    "trainer": lambda: tpack.SimpleTrainer(),
    "units": lambda: 4,
    "val": lambda: "x",
    "create_image_summary.val": lambda: np.zeros([1, 4, 4, 3], np.uint8),
    "value": lambda: 1,
    "value_func": lambda: lambda value: value,
    "values": lambda: [tf.zeros([1])],
    "variable_dict": lambda: {"w": np.zeros(1)},
    "window_size": lambda: 3,
    "wire_dtype": lambda: "float16",
    "worker_device": lambda: "/cpu:0",
    "worker_devices": lambda: _devices(),
    "x": _image,
    "xrange": lambda: (0.5, 1.5),
}

RIGHT |= {
    "algorithm": lambda: "xring",
    "kind": lambda: "wrapper",
    "all_vars": lambda: [[], []],
    "data_paths": lambda: ["images"],
    "lmdb_path": _lines,
    "h": lambda: 4,
    "w": lambda: 4,
    "y0": lambda: 0,
    "x0": lambda: 0,
    "new_h": lambda: 8,
    "new_w": lambda: 8,
    "interp": lambda: 1,
    "public": lambda: "x" * 40,
    "secret": lambda: "x" * 40,
    "sess": lambda: tf.Session(),
    "session": lambda: tf.Session(),
    "tfms": list,
    "types": lambda: ["mean"],
    "ckpt_to_initialize_from": lambda: "model-1",
    "contexts": lambda: [],
    "custom_getter": lambda: lambda getter, *args, **kwargs: getter(*args, **kwargs),
    "get_inputs": lambda: lambda: [tf.zeros([1, 4])],
    "options": lambda: tpack.graph_builder.GradientOptions(),
    "grad_list": lambda: [[(tf.ones([3]), tf.ones([3]))]],
    "tower_name.index": lambda: 1,
    "estimator": lambda: tpack.Estimator(lambda features, labels, mode: None),
    "train_spec": lambda: tpack.TrainSpec(lambda: None, max_steps=1),
    "eval_spec": lambda: tpack.EvalSpec(lambda: None),
    "ClusterRank.rank": lambda: 0,
    "ClusterRank.size": lambda: 2,
    "ClusterTask.cluster": lambda: {"worker": ["a:1", "b:1"]},
    "ClusterTask.index": lambda: 1,
    "ClusterTask.job": lambda: "worker",
    "expand_hosts.nodelist": lambda: "n[1-2]",
    "ColorSpace.mode": lambda: 6,
    "EstimatorSpec.predictions": _image,
    "EstimatorSpec.loss": lambda: tf.zeros([]),
    "EstimatorSpec.train_op": tf.no_op,
    "StagingInput.input": lambda: tpack.QueueInput(_flow()),
    "PerDeviceDataset.dataset": lambda: tf.data.Dataset.range(8),
    "build_predict_tower.inputs": lambda: [tf.zeros([2, 4])],
    "labels": lambda: [0, 1],
    "map_func": lambda: lambda point: point,
    "predictors": lambda: [
        tpack.OnlinePredictor([tf.placeholder(tf.float32, [None])], [tf.zeros([1])], sess=tf.Session())
    ],
    "MultiWorkerAllReduce.worker_devices": lambda: ["/job:worker/task:0", "/job:worker/task:1"],
    "aggregate_grads_colocate.all_grads": lambda: [[(tf.ones([3]), tf.ones([3]))]] * 2,
    "provide_cpu_devices.config": lambda: tf.ConfigProto(),
    "make_reducer.name": lambda: "xring",
    "step_callable": lambda: lambda: None,
    "dataset_fn": lambda: lambda: tf.data.Dataset.range(8),
    "loss_fn": lambda: lambda x: x,
    "optimizer": lambda: _optimizer(),
    "distribution": lambda: tpack.OneDeviceStrategy("/cpu:0"),
    "receiver_tensors": lambda: {"x": tf.zeros([1])},
    "v": lambda: tf.get_variable("v", []),
    "tower_grads": _gradients,
    "reduced": _gradients,
    "apply_in_replicas.tower_grads": lambda: [[(tf.ones([3]), tf.get_variable("updated", [3]))]],
    "build_replicas.grad_fn": lambda: lambda: [],
    "build_towers.own_variables": lambda: [True],
    "TensorBoardHParams.hparams": lambda: {"rate": 0.1},
}

# Parameters that have a default and yet must be given.
COMPLETE = {
    "PredictConfig": ("tower_func", "input_signature", "input_names", "output_names"),
    "BestExporter": ("serving_input_receiver_fn",),
    "EstimatorSpec": ("predictions", "loss", "train_op"),
    "MultiProcessMapData": ("map_func",),
    "MultiThreadMapData": ("map_func",),
    "TrainConfig": ("model", "dataflow"),
}
RIGHT |= {
    "input_names": lambda: ["x"],
    "output_names": lambda: ["out"],
    "model": lambda: tpack.ModelDesc(),
    "dataflow": _flow,
    "PredictConfig.tower_func": lambda: lambda x: tf.identity(x, "out"),
}

# Other words by which an error may name an argument: what users call it rather than its name.
ALSO_SAID: dict[str, tuple[str, ...]] = {
    "callback": ("Callback",),
    "cb": ("Callback",),
    "triggerable": ("Callback",),
    "cbs": ("Callback",),
    "ds": ("DataFlow", "dataflow"),
    "df": ("DataFlow", "dataflow"),
    "df_lists": ("DataFlow",),
    "inner": ("Reducer",),
    "outer": ("Reducer",),
    "reducer": ("Reducer",),
    "gpus": ("tower", "GPU"),
    "opt": ("optimizer", "Optimizer"),
    "optimizer_or_optimizer_fn": ("optimizer", "Optimizer"),
    "augmentors": ("augmentor", "ImageAugmentor"),
    "aug": ("augmentor", "ImageAugmentor"),
    "aug_lists": ("augmentor", "ImageAugmentor"),
    "infs": ("Inferencer",),
    "fn": ("function",),
    "func": ("function",),
    "towers": ("tower",),
    "num_gpus": ("tower",),
    "ImageFromFile.resize": ("Resize",),
    "x": ("its input",),
    "inputs": ("its input",),
}
