"""Wrong calls of weights, predictors, exports, data, layers, gradients and strategies."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

import tpack as T  # noqa: N812
from tests.helpers.combined_training import Net, net
from tpack.tfutils.export import ModelExporter
from tpack.tfutils.gradproc import GlobalNormClip, MapGradient, ScaleGradient
from tpack.tfutils.summary import add_moving_summary
from tpack.tfutils.varmanip import load_checkpoint_vars, save_checkpoint_vars
from tpack.tower.context import current_tower_context


def _adam() -> Any:
    return tf.train.AdamOptimizer(0.1)


def _predict(**changed: Any) -> Any:
    given = {"model": Net(_adam), "input_names": ["x", "ids"], "output_names": ["output"], "session_init": _weights()}
    return T.PredictConfig(**{**given, **changed})


def _weights() -> Any:
    return T.SmartInit(
        {"table": np.zeros([7, 2]), "dense/W": np.zeros([4, 3]), "dense/b": np.zeros(3), "out/W": np.zeros([3, 2])}
    )


def _predictor(**changed: Any) -> Any:
    return T.OfflinePredictor(_predict(**changed))


def _x(*shape: int) -> Any:
    return np.zeros(shape)


def _image() -> Any:
    return tf.zeros([2, 8, 8, 3])


FLOW = T.DataFromList([[1, 2], [3, 4]])
CALLS: dict[str, Callable[[], Any]] = {
    "weights: missing checkpoint": lambda: T.SmartInit("no/such/model-10"),
    "weights: missing archive": lambda: T.SmartInit("weights.npz"),
    "weights: a number": lambda: T.SmartInit(5),
    "weights: an array": lambda: T.SmartInit(np.zeros(3)),
    "weights: empty directory": lambda: T.SmartInit("."),
    "weights: a file of text": lambda: (Path("a.txt").write_text("x"), T.SmartInit("a.txt")),
    "weights: other shapes": lambda: _predictor(session_init=T.SmartInit({"table": np.zeros([7, 3])})),
    "weights: other names": lambda: _predictor(session_init=T.SmartInit({"tables": np.zeros([7, 2])})),
    "weights: load missing": lambda: load_checkpoint_vars("missing"),
    "weights: load a number": lambda: load_checkpoint_vars(5),
    "weights: save swapped": lambda: save_checkpoint_vars("weights.npz", {"a": np.zeros(1)}),
    "weights: save a list": lambda: save_checkpoint_vars([np.zeros(1)], "weights.npz"),
    "predict: model as a class": lambda: _predict(model=Net),
    "predict: no outputs": lambda: _predict(output_names=None),
    "predict: outputs as text": lambda: _predict(output_names="output"),
    "predict: inputs as text": lambda: _predict(input_names="x"),
    "predict: unknown output": lambda: _predictor(output_names=["outputs"]),
    "predict: unknown input": lambda: _predictor(input_names=["image"]),
    "predict: init as a path": lambda: _predict(session_init="model-10"),
    "predict: misspelt argument": lambda: _predict(input_name=["x"]),
    "predict: a model as the config": lambda: T.OfflinePredictor(Net(_adam)),
    "predict: fewer inputs": lambda: _predictor()(_x(2, 4)),
    "predict: more inputs": lambda: _predictor()(_x(2, 4), np.zeros([2, 2], "int32"), _x(2, 2)),
    "predict: other width": lambda: _predictor()(_x(2, 5), np.zeros([2, 2], "int32")),
    "predict: one example": lambda: _predictor()(_x(4), np.zeros([2], "int32")),
    "predict: text": lambda: _predictor()("image.png", np.zeros([2, 2], "int32")),
    "predict: tensors": lambda: _predictor()(tf.zeros([2, 4]), tf.zeros([2, 2], tf.int32)),
    "predict: None": lambda: _predictor()(None, None),
    "export: a predictor": lambda: ModelExporter(_predictor()).export_serving("out"),
    "export: directory in use": lambda: (Path("a").touch(), ModelExporter(_predict()).export_serving(".")),
    "export: path as a number": lambda: ModelExporter(_predict()).export_compact(5),
    "export: into a directory": lambda: ModelExporter(_predict()).export_compact("."),
    "data: list of a number": lambda: T.DataFromList(5),
    "data: batch of zero": lambda: T.BatchData(FLOW, 0),
    "data: batch swapped": lambda: T.BatchData(2, FLOW),
    "data: batch of an array": lambda: T.BatchData(np.zeros(3), 2),
    "data: batch as float": lambda: T.BatchData(FLOW, 2.0),
    "data: remainder as text": lambda: T.BatchData(FLOW, 2, remainder="yes"),
    "data: map swapped": lambda: T.MapData(lambda dp: dp, FLOW),
    "data: map of a call": lambda: T.MapData(FLOW, None),
    "data: component as text": lambda: _all(T.MapDataComponent(FLOW, lambda x: x, "0")),
    "data: component out of range": lambda: _all(T.MapDataComponent(FLOW, lambda x: x, 5)),
    "data: runner without workers": lambda: T.MultiProcessRunner(FLOW, 10, 0),
    "data: runner swapped": lambda: T.MultiThreadMapData(4, FLOW, lambda dp: dp),
    "data: share of one number": lambda: T.ShardData(FLOW, rank=0),
    "data: share out of range": lambda: T.ShardData(FLOW, 2, 2),
    "data: missing database": lambda: T.LMDBData("missing.lmdb"),
    "data: missing record": lambda: T.TFRecordData("missing.tfrecord"),
    "data: repeat of text": lambda: T.RepeatedData(FLOW, "forever"),
    "data: fixed size of zero": lambda: T.FixedSizeData(FLOW, 0),
    "data: joined nothing": lambda: T.JoinData([]),
    "data: joined one flow": lambda: T.JoinData(FLOW),
    "data: probabilities": lambda: T.RandomChooseData([(FLOW, 0.5), (FLOW, 0.2)]),
    "data: queue of a class": lambda: T.QueueInput(T.DataFromList),
    "data: queue of arrays": lambda: T.QueueInput([np.zeros(3)]),
    "data: augmentor as a function": lambda: T.AugmentImageComponent(FLOW, lambda x: x),
    "data: cache of a list": lambda: T.CacheData([1, 2]),
    "data: iterated before reset": lambda: next(iter(T.RepeatedData(T.BatchData(FLOW, 5), 1))),
    "layer: without a name": lambda: T.Conv2D(_image(), 4, 3),
    "layer: swapped": lambda: T.Conv2D(_image(), "conv", 4, 3),
    "layer: channels as text": lambda: T.Conv2D("conv", _image(), "4", 3),
    "layer: padding": lambda: T.Conv2D("conv", _image(), 4, 3, padding="some"),
    "layer: data format": lambda: T.Conv2D("conv", _image(), 4, 3, data_format="NWHC"),
    "layer: numpy": lambda: T.Conv2D("conv", np.zeros([2, 8, 8, 3], "float32"), 4, 3),
    "layer: rank": lambda: T.Conv2D("conv", tf.zeros([2, 8]), 4, 3),
    "layer: unknown argument": lambda: T.Conv2D("conv", _image(), 4, 3, kernal_size=3),
    "layer: units of zero": lambda: T.FullyConnected("fc", tf.zeros([2, 3]), 0),
    "layer: one name twice": lambda: (
        T.FullyConnected("fc", tf.zeros([2, 3]), 2),
        T.FullyConnected("fc", tf.zeros([2, 4]), 2),
    ),
    "layer: activation as text": lambda: T.FullyConnected("fc", tf.zeros([2, 3]), 2, activation="relu"),
    "layer: dropout rate": lambda: T.Dropout("drop", tf.zeros([2, 3]), rate=1.5),
    "layer: BatchNorm without a tower": lambda: T.BatchNorm("bn", tf.zeros([2, 3])),
    "layer: BatchNorm momentum": lambda: T.BatchNorm("bn", tf.zeros([2, 3]), momentum=2.0, training=True),
    "layer: pool of text": lambda: T.MaxPooling("pool", _image(), "2"),
    "context: outside of a tower": lambda: current_tower_context(),
    "summary: a number": lambda: add_moving_summary(0.5),
    "summary: by example": lambda: add_moving_summary(tf.zeros([3])),
    "gradients: clip of zero": lambda: GlobalNormClip(0),
    "gradients: clip as text": lambda: GlobalNormClip("5"),
    "gradients: map as text": lambda: MapGradient("clip"),
    "gradients: bad pattern": lambda: MapGradient(lambda g: g, "(("),
    "gradients: scale as a number": lambda: ScaleGradient(2.0),
    "gradients: scale swapped": lambda: ScaleGradient([(2.0, ".*")]),
    "regularizer: without a function": lambda: T.regularize_cost(".*"),
    "regularizer: swapped": lambda: T.regularize_cost(tf.nn.l2_loss, ".*"),
    "optimizer: rate as text": lambda: T.AdamW("0.1"),
    "optimizer: negative decay": lambda: T.AdamW(0.1, weight_decay=-1),
    "optimizer: pattern": lambda: T.AdamW(0.1, no_decay="(("),
    "fit: a function": lambda: T.fit(net, (np.zeros([4, 2]), np.zeros(4))),
    "fit: not compiled": lambda: T.fit(_keras(), (np.zeros([4, 2]), np.zeros(4))),
    "fit: misspelt argument": lambda: T.fit(_keras(True), (np.zeros([4, 2]), np.zeros([4, 1])), epoch=2),
    "fit: epochs of zero": lambda: T.fit(_keras(True), (np.zeros([4, 2]), np.zeros([4, 1])), epochs=0),
    "fit: swapped": lambda: T.fit((np.zeros([4, 2]), np.zeros([4, 1])), _keras(True)),
    "fit: x and y apart": lambda: T.fit(_keras(True), np.zeros([4, 2]), np.zeros([4, 1])),
    "fit: other width": lambda: T.fit(_keras(True), (np.zeros([32, 3], "float32"), np.zeros([32, 1], "float32"))),
}


def _all(flow: Any) -> list[Any]:
    flow.reset_state()
    return list(flow)


def _keras(compiled: bool = False) -> Any:
    import keras  # noqa: PLC0415

    from tpack.compat.runtime import eager_mode  # noqa: PLC0415

    with eager_mode():
        model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
        if compiled:
            model.compile("sgd", "mse")
        return model
