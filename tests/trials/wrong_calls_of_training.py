"""Wrong calls of models, configs, trainers and callbacks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

import tpack
from tests.helpers.combined_training import Net, examples, net, shares
from tpack import *  # noqa: F403
from tpack.graph_builder.precision import PrecisionPolicy
from tpack.schedules import Cosine, WarmUp
from tpack.tfutils.optimizer import AccumGradOptimizer
from tpack.train.resume import AutoResumeTrainConfig

ROWS = (np.zeros([24, 4]), np.zeros([24, 2], "int32"), np.zeros([24, 2]))


def _adam() -> Any:
    return tf.train.AdamOptimizer(0.1)


def _config(cls: Any = None, **changed: Any) -> Any:
    given = {"model": Net(_adam), "dataflow": shares(examples(2), 1), "steps_per_epoch": 1, "max_epoch": 1}
    return (cls or TrainConfig)(**{**given, "monitors": [], "extra_callbacks": [], **changed})  # noqa: F405


def _train(trainer: Any = None, **changed: Any) -> Any:
    return launch_train_with_config(_config(**changed), trainer or SimpleTrainer())  # noqa: F405


def _with(cost: Any, optimizer: Any = _adam, **changed: Any) -> Any:
    return _train(model=Net(optimizer, cost), **changed)


class _Changed(Net):
    def __init__(self, **methods: Any) -> None:
        super().__init__(_adam)
        for name, method in methods.items():
            setattr(self, name, method)


def _if_tensor(x: Any, ids: Any, y: Any) -> Any:
    return net(x, ids, y) if tf.reduce_sum(x) > 0 else net(-x, ids, y)


def _numpy_of(x: Any, ids: Any, y: Any) -> Any:
    return net(x, ids, y).numpy()


def _spec(*shape: Any, dtype: Any = tf.float64, name: str = "x") -> Any:
    return tf.TensorSpec(list(shape), dtype, name)


def _arrays(*arrays: Any, **changed: Any) -> Callable[[], Any]:
    options = {"batch_size": 12, **changed}
    return lambda: _train(dataflow=arrays, **options)


T = tpack
X, IDS, Y = ROWS
CALLS: dict[str, Callable[[], Any]] = {
    # Configs.
    "config: misspelt argument": lambda: _config(calbacks=[]),
    "config: model as a class": lambda: _config(model=Net),
    "config: model as a function": lambda: _config(model=net),
    "config: one callback, no list": lambda: _config(callbacks=T.ModelSaver()),
    "config: callback as a class": lambda: _config(callbacks=[T.ModelSaver]),
    "config: callback twice": lambda: (lambda c: _config(callbacks=[c, c]))(T.ModelSaver()),
    "config: callbacks as text": lambda: _config(callbacks=["ModelSaver"]),
    "config: steps as float": lambda: _config(steps_per_epoch=1.5),
    "config: steps of zero": lambda: _config(steps_per_epoch=0),
    "config: steps as text": lambda: _config(steps_per_epoch="10"),
    "config: epochs negative": lambda: _config(max_epoch=-1),
    "config: starting after the end": lambda: _config(starting_epoch=3, max_epoch=2),
    "config: dataflow and data": lambda: _config(data=T.QueueInput(shares(examples(1), 1))),
    "config: dataflow as data": lambda: _config(dataflow=None, data=shares(examples(1), 1)),
    "config: no data": lambda: _config(dataflow=None),
    "config: one array": lambda: _config(dataflow=X),
    "config: path as data": lambda: _config(dataflow="data.npz"),
    "config: data as a number": lambda: _config(dataflow=5),
    "config: init as a path": lambda: _config(session_init="model-10"),
    "config: init as a dict": lambda: _config(session_init={"w": 1.0}),
    "config: session config as a dict": lambda: _config(session_config={"device_count": 2}),
    "config: log_dir as a number": lambda: _config(log_dir=5),
    "config: log_dir is a file": lambda: (open("file", "w").close(), _config(log_dir="file")),
    "config: seed as float": lambda: _config(seed=0.5),
    "config: seed negative": lambda: _config(seed=-1),
    "config: steps_per_call of zero": lambda: _config(steps_per_call=0),
    "config: batch_size of batches": lambda: _train(batch_size=12),
    "config: batch_size of zero": _arrays(X, IDS, Y, batch_size=0),
    "config: batch_size as text": _arrays(X, IDS, Y, batch_size="12"),
    "config: monitors as text": lambda: _config(monitors="tensorboard"),
    "config: resume without a directory": lambda: _config(AutoResumeTrainConfig),
    "config: resume in a damaged directory": lambda: (
        os_write("run/checkpoint", 'model_checkpoint_path: "model-5"'),
        os_write("run/model-5.index", "x"),
        os_write("run/model-5.data-00000-of-00001", "x"),
        _config(AutoResumeTrainConfig, log_dir="run"),
    ),
    # Data that do not fit the model.
    "data: fewer arrays": _arrays(X, IDS),
    "data: more arrays": _arrays(X, IDS, Y, Y),
    "data: swapped arrays": _arrays(IDS, X, Y),
    "data: other lengths": _arrays(X[:20], IDS, Y),
    "data: other width": _arrays(X[:, :3], IDS, Y),
    "data: other rank": _arrays(X[:, :, None], IDS, Y),
    "data: text": _arrays(np.array(["a"] * 24), IDS, Y),
    "data: objects": _arrays(np.array([None] * 24), IDS, Y),
    "data: no examples": _arrays(X[:0], IDS[:0], Y[:0]),
    "data: batch larger than all": _arrays(X, IDS, Y, batch_size=100, steps_per_epoch=None),
    "data: batch not for the towers": lambda: _train(T.SyncMultiGPUTrainerReplicated(5), dataflow=ROWS, batch_size=12),
    "data: by other names": lambda: _train(dataflow={"x": X, "id": IDS, "y": Y}, batch_size=12),
    "data: tensors": lambda: _train(dataflow=(tf.constant(X), tf.constant(IDS), tf.constant(Y)), batch_size=12),
    "data: a generator that ran": lambda: _train(dataflow=(each for each in [[X, IDS, Y]])),
    "data: points are no lists": lambda: _train(dataflow=T.DataFromList([5, 6])),
    # Models.
    "model: no cost": lambda: _with(lambda *_: None),
    "model: cost by example": lambda: _with(lambda x, ids, y: tf.reduce_sum(net(x, ids, y) * x, 1)),
    "model: cost as a number": lambda: _with(lambda *_: 1.0),
    "model: cost as numpy": lambda: _with(lambda *_: np.float32(1.0)),
    "model: cost in integers": lambda: _with(lambda x, ids, y: tf.cast(net(x, ids, y), tf.int32)),
    "model: cost as a list": lambda: _with(lambda *each: [net(*each)]),
    "model: cost as a dict": lambda: _with(lambda *each: {"cost": net(*each)}),
    "model: cost without variables": lambda: _with(lambda x, ids, y: tf.reduce_mean(x)),
    "model: cost beside its variables": lambda: _with(lambda x, ids, y: (net(x, ids, y), tf.reduce_mean(x))[1]),
    "model: fewer arguments": lambda: _train(model=_Changed(build_graph=lambda x: tf.reduce_mean(x))),
    "model: more arguments": lambda: _train(model=_Changed(build_graph=lambda a, b, c, d: tf.reduce_mean(a))),
    "model: if tensor": lambda: _with(_if_tensor),
    "model: numpy()": lambda: _with(_numpy_of),
    "model: float(tensor)": lambda: _with(lambda *each: float(net(*each))),
    "model: for row in tensor": lambda: _with(lambda x, ids, y: sum(tf.reduce_sum(row) for row in x)),
    "model: optimizer as text": lambda: _with(net, lambda: "adam"),
    "model: optimizer None": lambda: _with(net, lambda: None),
    "model: optimizer as a class": lambda: _with(net, lambda: tf.train.AdamOptimizer),
    "model: optimizer of Keras": lambda: _with(net, _keras_adam),
    "model: optimizer as a number": lambda: _with(net, lambda: 0.1),
    "model: optimizer as an operation": lambda: _with(net, lambda: tf.no_op()),
    "model: inputs as shapes": lambda: _train(model=_Changed(inputs=lambda: [[None, 4], [None, 2], [None, 2]])),
    "model: inputs as text": lambda: _train(model=_Changed(inputs=lambda: ["x", "ids", "y"])),
    "model: inputs of one spec": lambda: _train(model=_Changed(inputs=lambda: _spec(None, 4))),
    "model: inputs None": lambda: _train(model=_Changed(inputs=lambda: None)),
    "model: inputs of one name": lambda: _train(model=_Changed(inputs=lambda: [_spec(None, 4)] * 3)),
    "model: inputs without names": lambda: _train(
        model=_Changed(inputs=lambda: [_spec(None, 4, name=None), _spec(None, 2, name="b"), _spec(None, 2, name="c")])
    ),
    "model: variable of another graph": lambda: _with(lambda *each: net(*each) + _of_another_graph()),
    "model: a tensor of another graph": lambda: _with(lambda *each: net(*each) + _tensor_of_another_graph()),
    # Trainers.
    "trainer: as a class": lambda: launch_train_with_config(_config(), T.SimpleTrainer),  # noqa: F405
    "trainer: swapped": lambda: launch_train_with_config(T.SimpleTrainer(), _config()),  # noqa: F405
    "trainer: missing": lambda: launch_train_with_config(_config()),  # noqa: F405
    "trainer: as text": lambda: launch_train_with_config(_config(), "replicated"),  # noqa: F405
    "trainer: used twice": lambda: (lambda t: (_train(t), _train(t)))(T.SimpleTrainer()),
    "trainer: a model for a config": lambda: launch_train_with_config(Net(_adam), T.SimpleTrainer()),  # noqa: F405
    "trainer: zero towers": lambda: T.SyncMultiGPUTrainerReplicated(0),
    "trainer: negative towers": lambda: T.SyncMultiGPUTrainerReplicated(-2),
    "trainer: towers as text": lambda: T.SyncMultiGPUTrainerReplicated("0,1"),
    "trainer: towers as devices": lambda: T.SyncMultiGPUTrainerReplicated(["/gpu:0", "/gpu:1"]),
    "trainer: towers as float": lambda: T.SyncMultiGPUTrainerReplicated(2.0),
    "trainer: a tower twice": lambda: T.SyncMultiGPUTrainerReplicated([0, 0]),
    "trainer: no towers": lambda: T.SyncMultiGPUTrainerReplicated([]),
    "trainer: unknown mode": lambda: T.SyncMultiGPUTrainerReplicated(2, mode="nccll"),
    "trainer: mode in place of average": lambda: T.SyncMultiGPUTrainerReplicated(2, "xring"),
    "trainer: mode as a class": lambda: T.SyncMultiGPUTrainerReplicated(2, mode=T.reduction),
    "trainer: odd hierarchical": lambda: T.SyncMultiGPUTrainerHierarchical(3),
    "trainer: precision": lambda: T.SimpleTrainer(precision="fp16"),
    "trainer: precision as a dtype": lambda: T.SimpleTrainer(precision=np.float16),
    "trainer: precision of inputs": lambda: PrecisionPolicy("bfloat16", uncast_inputs="x"),
    "trainer: unknown uncast inputs": lambda: _train(
        T.SimpleTrainer(precision=PrecisionPolicy("bfloat16", uncast_inputs=("z",)))
    ),
    "trainer: compile": lambda: T.SimpleTrainer(compile="jit"),
    "trainer: compile as a bool": lambda: T.SimpleTrainer(compile=True),
    "trainer: tower_building": lambda: T.SyncMultiGPUTrainerReplicated(2, tower_building="copies"),
    "trainer: ps_device": lambda: T.SyncMultiGPUTrainerParameterServer(2, "tpu"),
    # Callbacks.
    "callback: unknown variable of a schedule": lambda: _train(
        callbacks=[T.ScheduledHyperParamSetter("learning_rat", [(0, 0.1)])]
    ),
    "callback: empty schedule": lambda: T.ScheduledHyperParamSetter("lr", []),
    "callback: schedule as a number": lambda: T.ScheduledHyperParamSetter("lr", 0.1),
    "callback: schedule as a dict": lambda: T.ScheduledHyperParamSetter("lr", {0: 0.1}),
    "callback: schedule swapped": lambda: T.ScheduledHyperParamSetter([(0, 0.1)], "lr"),
    "callback: schedule with one point twice": lambda: T.ScheduledHyperParamSetter("lr", [(1, 0.1), (1, 0.2)]),
    "callback: schedule without pairs": lambda: T.ScheduledHyperParamSetter("lr", [0.1, 0.2]),
    "callback: interp": lambda: T.ScheduledHyperParamSetter("lr", [(0, 0.1)], interp="cubic"),
    "callback: cosine swapped": lambda: Cosine(0, 10, 0),
    "callback: warm-up of a number": lambda: WarmUp(0.1, 5),
    "callback: EMA decay": lambda: T.EMA(99.9),
    "callback: EMA of a variable": lambda: T.EMA(tf.get_variable("w", [])),
    "callback: EMA that is not among the callbacks": lambda: _train(
        callbacks=[T.EMA(0.9).evaluate(T.ModelSaver())], log_dir="log"
    ),
    "callback: SWA epoch": lambda: T.SWA(0),
    "callback: saver directory is a file": lambda: (
        open("file", "w").close(),
        _train(callbacks=[T.ModelSaver(checkpoint_dir="file")]),
    ),
    "callback: saver keeps a negative number": lambda: T.ModelSaver(max_to_keep=-1),
    "callback: saver directory first": lambda: T.ModelSaver("checkpoints"),
    "callback: MinSaver without a name": lambda: T.MinSaver(),
    "callback: MinSaver of an unknown statistic": lambda: _train(
        callbacks=[T.MinSaver("validation_eror")], log_dir="log"
    ),
    "callback: runner without data": lambda: T.InferenceRunner(None, T.ScalarStats("cost")),
    "callback: runner swapped": lambda: T.InferenceRunner(T.ScalarStats("cost"), ROWS),
    "callback: runner with a name": lambda: T.InferenceRunner(shares(examples(1), 1), "cost"),
    "callback: runner without an inferencer": lambda: T.InferenceRunner(shares(examples(1), 1), []),
    "callback: runner of an unknown tensor": lambda: _train(
        callbacks=[T.InferenceRunner(shares(examples(1), 1), T.ScalarStats("costs"))]
    ),
    "callback: runner of other data": lambda: _train(
        callbacks=[T.InferenceRunner((X, Y), T.ScalarStats("cost"), batch_size=12)]
    ),
    "callback: trigger without a period": lambda: T.PeriodicTrigger(T.ModelSaver()),
    "callback: trigger of a class": lambda: T.PeriodicTrigger(T.ModelSaver, every_k_steps=1),
    "callback: trigger swapped": lambda: T.PeriodicTrigger(5, T.ModelSaver()),
    "callback: trigger of zero": lambda: T.PeriodicTrigger(T.ModelSaver(), every_k_epochs=0),
    "callback: statistic for an early stop": lambda: T.EarlyStopping(),
    "callback: of Keras": lambda: _config(callbacks=[_keras_callback()]),
    "callback: a hook of TensorFlow": lambda: _config(callbacks=[tf.train.StopAtStepHook(5)]),
    "accumulation: swapped": lambda: AccumGradOptimizer(4, _adam()),
    "accumulation: of zero": lambda: AccumGradOptimizer(_adam(), 0),
    "accumulation: of a function": lambda: AccumGradOptimizer(_adam, 4),
}


def os_write(path: str, text: str) -> None:
    """Write a file."""
    import pathlib  # noqa: PLC0415

    pathlib.Path(path).parent.mkdir(exist_ok=True)
    pathlib.Path(path).write_text(text)


def _keras_adam() -> Any:
    import keras  # noqa: PLC0415

    return keras.optimizers.Adam()


def _keras_callback() -> Any:
    import keras  # noqa: PLC0415

    return keras.callbacks.EarlyStopping()


def _of_another_graph() -> Any:
    with tf.Graph().as_default():
        return tf.get_variable("w", [], tf.float64)


def _tensor_of_another_graph() -> Any:
    with tf.Graph().as_default():
        return tf.constant(1.0, tf.float64)
