"""`fit`: train a Keras model, or any model description, on several towers by one call."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.callbacks.monitors.writers import ScalarPrinter
from tpack.callbacks.progress import ProgressBar
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.compat.runtime import eager_mode
from tpack.dataflow.arrays import DataFromArrays
from tpack.dataflow.batch import BatchData
from tpack.dataflow.mapping import MapData
from tpack.errors import ConfigError, WrongTypeError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.data_adapter import GivenData, are_arrays
from tpack.input_source.dataset import is_eager
from tpack.keras.cloning import inputs_of
from tpack.keras.data_adapter import NestedData, named_specs, nested_arrays, nested_batches, tower_batches
from tpack.keras.layout import flatten, zeros_of
from tpack.keras.losses_metrics import COMPUTE_LOSS, has_own, refuse_sums
from tpack.keras.model import KerasModel
from tpack.train.config import DEFAULT_CALLBACKS, DEFAULT_MONITORS, TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.single_cost import SingleCostTrainer
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, mismatch, shown

BATCH_SIZE = 32
"""The default batch size for arrays, as in Keras."""

_used_optimizers: WeakSet[Any] = WeakSet()
"""Optimizers of Keras with which `fit` has trained a model."""

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


@dataclass(frozen=True)
class _Options:
    """The arguments of Keras's ``fit`` that `TrainConfig` does not have; see `fit`."""

    sample_weight: Any = None
    class_weight: Mapping[int, float] | None = None
    validation_split: float = 0.0
    validation_batch_size: int | None = None
    validation_steps: int | None = None
    validation_freq: int = 1
    shuffle: bool = True
    verbose: str | int = "auto"
    initial_epoch: int = 0

    def __post_init__(self) -> None:
        for name in ("validation_freq", "validation_steps", "validation_batch_size"):
            if getattr(self, name) is not None:
                check_count("fit", name, getattr(self, name))
        check_count("fit", "initial_epoch", self.initial_epoch, 0)
        if not isinstance(self.shuffle, bool):
            raise WrongTypeError(mismatch("fit", "shuffle", self.shuffle, "True or False"))
        if self.verbose not in ("auto", 0, 1, 2):
            raise ConfigError(mismatch("fit", "verbose", self.verbose, '0, 1, 2 or "auto"'))

    @classmethod
    def taken_from(cls, kwargs: dict[str, Any]) -> "_Options":
        """Take the options out of the keyword arguments of `fit`."""
        return cls(**{field.name: kwargs.pop(field.name) for field in fields(cls) if field.name in kwargs})

    @property
    def of_arrays(self) -> bool:
        """Whether one is given that needs arrays of a Keras model."""
        return self.sample_weight is not None or self.class_weight is not None or self.validation_split > 0


def _check_names(kwargs: Mapping[str, Any]) -> None:
    """Refuse an argument of another name than those of `TrainConfig` where one of `fit` is probably meant."""
    own = [*inspect.signature(fit).parameters, *(field.name for field in fields(_Options))]
    known = inspect.signature(TrainConfig).parameters
    for name in kwargs:
        if name not in known and (near := get_close_matches(name, own, 1)):
            raise TypeError(f"fit() got an unexpected keyword argument {name!r}: did you mean {near[0]}?")


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
        data: as Keras nests them, ``(x, y)`` or ``(x, y, sample_weight)``, where each is an array, or a list or dict of
            arrays by input or output; a ``tf.data.Dataset``, a ``PyDataset`` or a generator function of such batches;
            or as ``dataflow`` of `TrainConfig`: flat arrays, a DataFlow, a loader of another library.
        towers: their number, or the numbers of their GPUs; each has its own variables, and all learn the same.
        epochs: the number of passes over the data.
        batch_size: the examples of a step over all towers, where the data are examples; for arrays None means 32. The
            last batch of arrays may be smaller. None for data in batches, each of which is one tower's in a step.
        validation_data: like ``data``, but finite: the cost and the metrics are computed on it after each epoch.
        **kwargs: as for Keras's ``fit``: ``sample_weight``, ``class_weight``, ``validation_split`` of arrays,
            ``validation_batch_size``, ``validation_steps``, ``validation_freq``, ``shuffle``, ``verbose``,
            ``initial_epoch``; and as for `TrainConfig`, such as ``callbacks``, ``steps_per_epoch`` and
            ``session_init``.

    Raises:
        ConfigError: The Keras model was not compiled, has its own ``train_step``, or the data or numbers are invalid.
        WrongTypeError: The model is something else; a callback is one of Keras; or the data are in several arguments.

    Example:
        model.compile(optimizer="adamw", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        trainer = tpack.fit(model, (x, y), towers=8, epochs=3, batch_size=256)
    """
    check_count("fit", "epochs", epochs)
    check_callbacks(kwargs.get("callbacks") or [])
    options = _Options.taken_from(kwargs)
    _check_names(kwargs)
    # The trainer comes first, since it checks the towers.
    trainer = SimpleTrainer() if towers == 1 else SyncMultiGPUTrainerReplicated(towers)
    num_towers = len(trainer.devices)
    if isinstance(model, keras.Model):
        if isinstance(data, tf.compat.v2.data.Dataset) and kwargs.get("steps_per_epoch") is None:
            data = _with_size(data, None)
        _warn_of_state(model)
        given = _GivenToKeras(_checked(model), data, validation_data, options, batch_size, num_towers)
        desc: ModelDesc = given.desc
        config_data, size, callbacks = given.data, given.batch_size, given.callbacks()
    else:
        desc = _checked_desc(model, options)
        config_data, size = data, BATCH_SIZE if batch_size is None and are_arrays(data) else batch_size
        callbacks = [] if validation_data is None else _validation(desc, validation_data, batch_size, options)
    kwargs["callbacks"] = [*(kwargs.get("callbacks") or []), *callbacks]
    _set_verbose(kwargs, options.verbose)
    kwargs.setdefault("starting_epoch", options.initial_epoch + 1)
    config = TrainConfig(model=desc, dataflow=config_data, batch_size=size, max_epoch=epochs, **kwargs)
    if isinstance(model, keras.Model):
        _end_epochs_with_data(config, num_towers)
    launch_train_with_config(config, trainer)
    if isinstance(model, keras.Model) and isinstance(desc, KerasModel):
        with eager_mode():
            model.set_weights(desc.trained_weights())
        _used_optimizers.add(model.optimizer)
    return trainer


def _warn_of_state(model: keras.Model) -> None:
    """Warn where Keras would go on with the optimizer's state of an earlier training."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return
    with eager_mode():
        if optimizer in _used_optimizers or int(optimizer.iterations) > 0:
            logger.warning(
                f"fit begins with a new state of {type(optimizer).__name__}, such as moving averages and the progress "
                "of its schedule, where Keras goes on with that of an earlier fit; use one fit for all epochs"
            )


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


class _GivenToKeras:
    """A compiled model with its data: the description, and the data in the form that its towers take.

    Attributes:
        desc: the description of the model.
        data: the data for `TrainConfig`.
        batch_size: the batch size for `TrainConfig`.
    """

    def __init__(
        self, model: Any, data: Any, validation: Any, options: _Options, batch_size: int | None, num_towers: int
    ) -> None:
        self._model, self._options = model, options
        self._size = batch_size or BATCH_SIZE
        nested = self._nested(data)
        held_out = None if validation is None else self._nested(validation)
        if nested is None:
            if options.of_arrays:
                raise ConfigError(
                    f"fit got {shown(data)} with sample_weight, class_weight or validation_split: expected arrays"
                )
            self._validation, self._batches_are_given = validation, batch_size is None
            self.desc, self.data, self.batch_size = KerasModel(model), data, batch_size
            if are_arrays(data) and batch_size is None:
                self.batch_size = BATCH_SIZE
            return
        nested = nested.weighted(options.sample_weight, options.class_weight)
        if options.validation_split and validation is None:
            nested, held_out = nested.split(options.validation_split)
        is_uneven = nested.batches is None and bool(nested.num_rows % self._size or self._size % num_towers)
        self._ones = [each for each in (nested, held_out) if each is not None and each.weight is not None][:1]
        self.desc = self._described(nested, has_share=is_uneven)
        if num_towers > 1:
            refuse_sums(model, nested.first_inputs())
        self.data, self.batch_size = self._for_towers(nested, num_towers, is_uneven=is_uneven)
        self._validation, self._batches_are_given = validation, batch_size is None
        if held_out is not None:
            self._validation = self._flat(held_out, has_share=is_uneven)
            self._batches_are_given = held_out.batches is not None

    def callbacks(self) -> list[Callback]:
        """Return the callbacks of the validation."""
        if self._validation is None:
            return []
        size = None if self._batches_are_given and not are_arrays(self._validation) else self._size
        return _validation(self.desc, self._validation, size, self._options)

    def _nested(self, data: Any) -> NestedData | None:
        model = self._model
        inputs, outputs = getattr(model, "inputs", None), getattr(model, "outputs", None)
        num_targets = len(outputs) if outputs else 1
        if model.loss is None and not has_own(model, COMPUTE_LOSS) and not isinstance(data, tuple):
            num_targets = 0
        if isinstance(model.loss, list | tuple | dict):
            num_targets = sum(loss is not None for loss in flatten(model.loss))
        arrays = nested_arrays(data, len(inputs) if inputs else None, num_targets)
        if arrays is not None and arrays.y is None and model.loss is not None:
            raise ConfigError(f"fit got 1 array(s): expected the inputs, then {num_targets} of targets")
        return arrays or nested_batches(data)

    def _described(self, nested: NestedData, *, has_share: bool) -> KerasModel:
        model = self._model
        known = inputs_of(model) if getattr(model, "inputs", None) else []
        inputs = named_specs(nested.x, known, "input")
        if not model.built:
            with eager_mode():
                model(keras.tree.pack_sequence_as(nested.x, zeros_of(flatten(inputs))))
        taken = {spec.name for spec in flatten(inputs)}
        targets = [] if nested.y is None else _renamed(named_specs(nested.y, None, "target"), taken, "target")
        weights = None
        if self._ones:
            taken |= {spec.name for spec in flatten(targets)}
            weights = _renamed(named_specs(self._ones[0].weight, None, "sample_weight"), taken, "weight")
        return KerasModel(
            model, input_signature=inputs, target_signature=targets, weight_signature=weights, share_input=has_share
        )

    def _for_towers(self, nested: NestedData, num_towers: int, *, is_uneven: bool) -> tuple[Any, int | None]:
        """Return the data and the batch size of a `TrainConfig`."""
        flat = self._flat(nested, has_share=False)
        shuffle = self._options.shuffle
        if nested.batches is not None:
            return flat, None
        if is_uneven:
            return tower_batches(flat, self._size, num_towers, shuffle=shuffle), None
        if shuffle:
            return flat, self._size
        return BatchData(DataFromArrays(list(flat), shuffle=False), self._size // num_towers), None

    def _flat(self, nested: NestedData, *, has_share: bool) -> Any:
        """Return flat arrays or batches, with weights and shares of 1 where the model has these inputs."""
        weights = flatten(self._ones[0].weight) if self._ones and nested.weight is None else []
        dtype = keras.config.floatx()
        if nested.batches is None:
            ones = [np.ones([nested.num_rows, *weight.shape[1:]], dtype) for weight in weights]
            return (*nested.columns, *ones, *([np.ones([nested.num_rows], dtype)] if has_share else []))
        num_ones = len(weights) + has_share
        batches = _converted(nested.batches, [spec.dtype for spec in self.desc.inputs()])
        if not num_ones:
            return batches
        if isinstance(batches, tf.compat.v2.data.Dataset):
            with eager_mode():
                return batches.map(lambda *p: (*p, *[tf.ones([tf.shape(p[0])[0]], dtype)] * num_ones))
        return MapData(batches, lambda point: [*point, *[np.ones([len(point[0])], dtype)] * num_ones])


def _converted(batches: Any, dtypes: Sequence[tf.DType]) -> Any:
    """Return flat batches with numbers of the dtypes that the model takes, as Keras converts them; texts stay."""
    if isinstance(batches, tf.compat.v2.data.Dataset):
        specs = batches.element_spec
        if all(spec.dtype in (dtype, tf.string) for spec, dtype in zip(specs, dtypes, strict=False)):
            return batches
        with eager_mode():
            return batches.map(
                lambda *point: (
                    *(
                        part if part.dtype in (dtype, tf.string) else tf.cast(part, dtype)
                        for part, dtype in zip(point, dtypes, strict=False)
                    ),
                    *point[len(dtypes) :],
                )
            )

    def convert(point: Sequence[Any]) -> list[Any]:
        arrays = [np.asarray(part) for part in point]
        converted = [
            array if array.dtype.kind not in "fiub" or dtype == tf.string else array.astype(dtype.as_numpy_dtype)
            for array, dtype in zip(arrays, dtypes, strict=False)
        ]
        return [*converted, *arrays[len(dtypes) :]]

    return MapData(batches, convert)


def _renamed(specs: Any, taken: set[str], suffix: str) -> Any:
    """Return specs with other names than those that are taken."""
    return keras.tree.map_structure(
        lambda s: tf.TensorSpec(s.shape, s.dtype, f"{s.name}_{suffix}" if s.name in taken else s.name), specs
    )


def _checked(model: Any) -> Any:
    """Return a model that is compiled.

    Raises:
        ConfigError: It is not.
    """
    if not getattr(model, "compiled", False):
        raise ConfigError(
            "fit got a Keras model that was not compiled; use model.compile(optimizer, loss, metrics) first, or "
            "KerasModel(model, optimizer=..., loss=...)"
        )
    return model


def _checked_desc(model: Any, options: _Options) -> ModelDesc:
    """Return a model description.

    Raises:
        WrongTypeError: It is something else.
        ConfigError: Options are given that only a compiled Keras model has.
    """
    if not isinstance(model, ModelDesc):
        raise WrongTypeError(mismatch("fit", "model", model, "a compiled Keras model, a KerasModel or a ModelDesc"))
    if options.of_arrays or not options.shuffle:
        raise ConfigError(
            f"fit got a {type(model).__name__} with sample_weight, class_weight, validation_split or shuffle=False: "
            "expected a compiled Keras model"
        )
    return model


def _end_epochs_with_data(config: TrainConfig, num_towers: int) -> None:
    """Limit the steps of an epoch to those of a pass over the data, with a warning, as Keras does."""
    config.fit_to_towers(num_towers)
    try:
        steps, of_pass = config.steps_per_epoch, config.data.steps_of_pass(num_towers)
    except NotImplementedError:
        return
    found = f"fit got steps_per_epoch={steps} and data for {of_pass} steps"
    if steps > of_pass > 0:
        logger.warning(f"{found}: each epoch ends with the data; use data that repeat for longer ones")
        config.limit_steps(of_pass)
    elif of_pass % steps and steps * config.max_epoch > of_pass:
        logger.warning(f"{found}: they begin again within an epoch, where Keras ends it; use a divisor of {of_pass}")


def _validation(desc: ModelDesc, data: Any, batch_size: int | None, options: _Options) -> list[Callback]:
    """Return the callback that validates after each epoch, or after every few."""
    if not isinstance(desc, KerasModel):
        raise ConfigError("fit got validation_data for a ModelDesc: expected an InferenceRunner in callbacks")
    if options.validation_batch_size and are_arrays(data):
        batch_size = options.validation_batch_size
    is_batched = batch_size is None and not are_arrays(data)
    if is_batched and isinstance(data, tf.compat.v2.data.Dataset):
        data = _with_size(data, options.validation_steps)
    source = GivenData(data, None if is_batched else batch_size or BATCH_SIZE, is_once=True).source
    runner = InferenceRunner(source, desc.inferencers())
    if options.validation_steps is not None:
        runner.limit_batches(options.validation_steps)
    every = options.validation_freq
    return [runner if every == 1 else PeriodicTrigger(runner, every_k_epochs=every)]


def _with_size(dataset: Any, limit: int | None) -> Any:
    """Return a dataset that knows its size, which is counted in a pass over it where it does not.

    Args:
        dataset: one of batches.
        limit: the most batches that are of interest; None for all.
    """
    if not is_eager(dataset):
        return dataset
    with eager_mode():
        if int(dataset.cardinality()) != tf.data.experimental.UNKNOWN_CARDINALITY:
            return dataset
        dataset = dataset if limit is None else dataset.take(limit)
        size = int(dataset.reduce(np.int64(0), lambda count, _: count + 1))
        return dataset.apply(tf.data.experimental.assert_cardinality(size))


def _set_verbose(kwargs: dict[str, Any], verbose: str | int) -> None:
    """Leave the progress bar out of the default callbacks for 2, and the lines of statistics too for 0."""
    if verbose in (0, 2) and kwargs.get("extra_callbacks") is None:
        kwargs["extra_callbacks"] = [each for each in DEFAULT_CALLBACKS() if not isinstance(each, ProgressBar)]
    if verbose == 0 and kwargs.get("monitors") is None:
        kwargs["monitors"] = [each for each in DEFAULT_MONITORS() if not isinstance(each, ScalarPrinter)]
