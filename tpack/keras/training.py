"""`fit`: train a Keras model, or any model description, on several towers by one call."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.inference.runners import InferenceRunner
from tpack.compat import eager_mode
from tpack.dataflow.arrays import is_array
from tpack.errors import ConfigError, WrongTypeError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.data_adapter import GivenData
from tpack.keras.model import KerasModel
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.single_cost import SingleCostTrainer
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated
from tpack.utils.validation import check_arguments, check_count, mismatch, shown

BATCH_SIZE = 32
"""The default batch size for arrays, as in Keras."""

_COUNTERPARTS = {
    "BackupAndRestore": "AutoResumeTrainConfig in place of TrainConfig, with a ModelSaver and log_dir",
    "CSVLogger": "CSVWriter in monitors, with log_dir",
    "EarlyStopping": 'EarlyStopping("validation_total_loss", patience=...) of tpack',
    "History": "trainer.history, which is there anyway",
    "LambdaCallback": "CallbackFactory",
    "LearningRateScheduler": 'ScheduledHyperParamSetter("learning_rate", [(epoch, value), ...])',
    "ModelCheckpoint": 'ModelSaver(), or MinSaver("validation_total_loss") for the best one, with log_dir',
    "ProgbarLogger": "ProgressBar, which is there anyway",
    "ReduceLROnPlateau": (
        'StatMonitorParamSetter("learning_rate", "validation_total_loss", lambda rate: rate * 0.1, threshold=1e-4, '
        "last_k=10)"
    ),
    "SwapEMAWeights": "EMA",
    "TensorBoard": "log_dir=..., where events are written anyway",
    "TerminateOnNaN": "nothing: check_cost, which is on, ends training",
}
"""The replacements of Keras's callbacks."""

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def _with_data_in_one(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Refuse data in several arguments, as in Keras, with the form to use here."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        if len(args) > 2 or not kwargs.keys().isdisjoint(("x", "y")):
            raise WrongTypeError(
                f"{function.__name__} got the data in several arguments: expected one; use "
                f"tpack.{function.__name__}(model, (x, y), ...), and everything else by name"
            )
        return function(*args, **kwargs)

    return call


@_with_data_in_one
@check_arguments
def fit(
    model: Any,
    data: Any,
    *,
    towers: int | Sequence[int] = 1,
    epochs: int = 1,
    batch_size: int | None = None,
    validation_data: Any = None,
    **kwargs: Any,
) -> SingleCostTrainer:
    """Train a model on several towers, as Keras's ``fit`` does on one device, and return the trainer.

    A given Keras model has the trained weights afterwards. ``trainer.history`` has the statistics, and
    ``trainer.export_keras(path)`` writes the trained model to a file.

    Args:
        model: a compiled Keras model of any kind; a `KerasModel`; or any other `ModelDesc`.
        data: as ``dataflow`` of `TrainConfig`: arrays such as ``(x, y)``, a ``tf.data.Dataset``, a DataFlow, a loader
            of another library.
        towers: their number, or the numbers of their GPUs; each has its own variables, and all learn the same.
        epochs: the number of passes over the data.
        batch_size: the examples of a step over all towers, where the data are examples; for arrays None means 32. None
            for data in batches, each of which is one tower's in a step.
        validation_data: like ``data``, but finite: the cost and the metrics are computed on it after each epoch.
        **kwargs: as for `TrainConfig`, such as ``callbacks``, ``steps_per_epoch`` and ``session_init``.

    Raises:
        ConfigError: The Keras model was not compiled, or the data or numbers are invalid.
        WrongTypeError: The model is something else; a callback is one of Keras; or the data are in several arguments.

    Example:
        model.compile(optimizer="adamw", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        trainer = tpack.fit(model, (x, y), towers=8, epochs=3, batch_size=256)
    """
    check_count("fit", "epochs", epochs)
    check_callbacks(kwargs.get("callbacks") or [])
    # The trainer comes first, since it checks the towers.
    trainer = SimpleTrainer() if towers == 1 else SyncMultiGPUTrainerReplicated(towers)
    desc = _described(model, data)
    size = BATCH_SIZE if batch_size is None and _is_of_arrays(data) else batch_size
    callbacks = [*(kwargs.pop("callbacks", None) or [])]
    if validation_data is not None:
        if not isinstance(desc, KerasModel):
            raise ConfigError("fit got validation_data for a ModelDesc: expected an InferenceRunner in callbacks")
        is_batched = batch_size is None and not _is_of_arrays(validation_data)
        source = GivenData(validation_data, None if is_batched else size or BATCH_SIZE, is_once=True).source
        callbacks.append(InferenceRunner(source, desc.inferencers()))
    config = TrainConfig(model=desc, dataflow=data, batch_size=size, callbacks=callbacks, max_epoch=epochs, **kwargs)
    launch_train_with_config(config, trainer)
    if isinstance(model, keras.Model) and isinstance(desc, KerasModel):
        with eager_mode():
            model.set_weights(desc.trained_weights())
    return trainer


def check_callbacks(callbacks: Sequence[Any]) -> None:
    """Refuse callbacks of Keras, with their replacements.

    Raises:
        WrongTypeError: A callback is of Keras.
    """
    for callback in callbacks:
        if isinstance(callback, keras.callbacks.Callback):
            of_keras = [cls.__name__ for cls in type(callback).__mro__ if cls.__module__.startswith("keras.")]
            own = "a class that derives from tpack.Callback, with _trigger_epoch or _trigger_step"
            use = next((_COUNTERPARTS[name] for name in of_keras if name in _COUNTERPARTS), own)
            raise WrongTypeError(f"Keras runs its callbacks, such as {shown(callback)}, only eagerly: expected {use}")


def _described(model: Any, data: Any) -> ModelDesc:
    """Return the description of a model."""
    if isinstance(model, ModelDesc):
        return model
    if not isinstance(model, keras.Model):
        raise WrongTypeError(mismatch("fit", "model", model, "a compiled Keras model, a KerasModel or a ModelDesc"))
    if not getattr(model, "compiled", False):
        raise ConfigError(
            "fit got a Keras model that was not compiled; use model.compile(optimizer, loss, metrics) first, or "
            "KerasModel(model, optimizer=..., loss=...)"
        )
    if not _is_of_arrays(data) or isinstance(data, dict):
        return KerasModel(model)
    columns = list(data) if isinstance(data, tuple) else [data]
    num_targets = len(model.loss) if isinstance(model.loss, list | tuple | dict) else 1
    if len(columns) <= num_targets:
        raise ConfigError(f"fit got {len(columns)} array(s): expected the inputs, then {num_targets} of targets")
    inputs, targets = columns[:-num_targets], columns[-num_targets:]
    if not model.built:
        with eager_mode():
            rows = [np.asarray(column[:1]) for column in inputs]
            model(rows[0] if len(rows) == 1 else rows)
    known = [tf.TensorSpec(each.shape, each.dtype, each.name) for each in getattr(model, "inputs", None) or []]
    return KerasModel(
        model,
        input_signature=known or [_spec(column, "input", k) for k, column in enumerate(inputs)],
        target_signature=[_spec(column, "target", k) for k, column in enumerate(targets)],
    )


def _is_of_arrays(data: Any) -> bool:
    """Tell whether data are arrays whose rows are examples."""
    if isinstance(data, dict):
        return bool(data) and all(map(is_array, data.values()))
    if isinstance(data, tuple):
        return len(data) > 0 and all(map(is_array, data))
    return is_array(data) and not hasattr(data, "__getitems__")


def _spec(column: Any, name: str, number: int) -> tf.TensorSpec:
    dtype = np.asarray(column[:1]).dtype
    kept = tf.float32 if dtype == np.float64 else tf.as_dtype(dtype)
    return tf.TensorSpec([None, *column.shape[1:]], kept, f"{name}_{number}" if number else name)
