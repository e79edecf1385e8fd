"""Keras models trained by tpack's trainers, on as many towers as a trainer has.

`KerasDesc` is a model description like any other: every trainer, builder, predictor and inference callback can use it.
In each tower it makes the Keras model anew and calls it with the tower's inputs, so that each trainer's rules for
variables hold for those of the model too. Updates of layers, such as moving averages, run with each step, and the
losses of regularizers are a part of the cost. `KerasModel` is the description together with data and a trainer, under
the name and with the methods that tensorpack had for it.

A Keras model is trained in a graph here, and by an optimizer of TensorFlow. What Keras can only do eagerly (optimizers
of its own, metrics that have a state, ``fit`` callbacks) is an error that says what to use.
"""

import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.inference.inferencers import ScalarStats
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.compat import eager_mode
from tpack.contrib.keras_objects import Loss, Metric, as_loss, as_metric, as_optimizer_function
from tpack.dataflow.base import DataFlow
from tpack.errors import ConfigError, GraphBuildError, WrongTypeError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.base import InputSource
from tpack.input_source.queue_input import QueueInput
from tpack.older_names.table import say
from tpack.tfutils.summary import add_moving_summary
from tpack.tower.context import current_tower_context
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.single_cost import SingleCostTrainer
from tpack.train.trainers import SimpleTrainer
from tpack.utils.argument_types import check_arguments
from tpack.utils.checks import check_function, shown

__all__ = ["KerasDesc", "KerasModel", "KerasPhaseCallback", "setup_keras_trainer"]

Specs: TypeAlias = Sequence[tf.TensorSpec | tf.Tensor] | tf.TensorSpec


@check_arguments
class KerasDesc(ModelDesc):
    """A Keras model with its loss, optimizer and metrics, as a model description.

    The cost, ``total_loss``, is the sum of the losses of all outputs and of those that the layers have, such as
    regularizers. Metrics are means over a batch; they are tensors of their names, in training and in inference.

    Args:
        get_model: returns the Keras model: functional, sequential or subclassed. It is called in each tower, with
            Keras tensors of the inputs if it takes arguments, and must make the model there. Or a model, made or loaded
            in eager mode: each tower gets a clone, which begins with the weights that the model has now.
        input_signature: what the inputs are, each with a name; the first dimension is the batch. None, as below, takes
            them from a model that knows its inputs.
        target_signature: what the targets are, one for each output of the model. None takes the shapes of the outputs,
            without the last dimension where the loss is a sparse one.
        optimizer: one of TensorFlow, a function that returns one, or Keras's Adam or SGD, which become TensorFlow's.
        loss: one for each output: its name, a Keras loss, or a function of targets and outputs.
        metrics: likewise; each is computed for each output.

    Raises:
        ConfigError: Keras cannot do in a graph what is asked for, or there are not as many losses as targets.

    Example:
        desc = KerasDesc(
            make_model,
            tf.TensorSpec([None, 28, 28, 1], tf.float32, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
            optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"],
        )
        launch_train_with_config(TrainConfig(model=desc, ...), SyncMultiGPUTrainer(2))
    """

    def __init__(
        self,
        get_model: Any,
        input_signature: Specs | None = None,
        target_signature: Specs | None = None,
        *,
        optimizer: Any,
        loss: Loss | Sequence[Loss],
        metrics: Metric | Sequence[Metric] | None = None,
    ) -> None:
        inputs, targets = input_signature, target_signature
        if isinstance(get_model, keras.Model):
            inputs = _inputs_of(get_model) if inputs is None else inputs
            targets = _targets_of(get_model, _as_list(loss)) if targets is None else targets
            get_model = _Clones(get_model).make
        self._get_model = check_function(self, "get_model", get_model, "a Keras model, or a function that returns one")
        if inputs is None or targets is None:
            raise ConfigError("KerasDesc needs input_signature and target_signature where a function makes the model")
        self._specs = _as_list(inputs), _as_list(targets)
        self._make_optimizer = as_optimizer_function(optimizer)
        self._losses = [as_loss(each) for each in _as_list(loss)]
        self._metrics = [as_metric(each) for each in _as_list(metrics or [])]
        if len(self._losses) != len(self._specs[1]):
            raise ConfigError(f"KerasDesc got {len(self._losses)} loss(es) for {len(self._specs[1])} target(s)")
        self.keras_model: Any = None

    def inputs(self) -> list[tf.TensorSpec | tf.Tensor]:
        """Return the inputs and targets."""
        return [*self._specs[0], *self._specs[1]]

    def optimizer(self) -> tf.train.Optimizer:
        """Return the optimizer."""
        optimizer: tf.train.Optimizer = self._make_optimizer()
        return optimizer

    def build_graph(self, *inputs: tf.Tensor) -> tf.Tensor:
        """Build the model in the current tower, and return its cost.

        Raises:
            GraphBuildError: The function returns no Keras model, or the model has another number of outputs.
        """
        tower, num_inputs = current_tower_context(), len(self._specs[0])
        model = self.make_model()
        outputs = _call(model, inputs[:num_inputs], training=tower.is_training)
        targets = inputs[num_inputs:]
        if len(outputs) != len(targets):
            raise GraphBuildError(f"the Keras model has {len(outputs)} output(s) for {len(targets)} target(s)")
        if tower.is_main_tower and tower.is_training:
            self.keras_model = model
        losses = [tf.reduce_mean(loss(*pair)) for loss, *pair in zip(self._losses, targets, outputs, strict=True)]
        pairs = list(zip(targets, outputs, strict=True))
        values = [tf.reduce_mean(metric.compute(*pair)) for pair in pairs for metric in self._metrics]
        cost = tf.add_n([tf.cast(loss, tf.float32) for loss in [*losses, *model.losses]], name="total_loss")
        stats = [*(losses if len(losses) > 1 else []), *values]
        add_moving_summary(cost, *map(tf.identity, stats, self.stat_names[1:]))
        return cost

    @property
    def stat_names(self) -> list[str]:
        """The names of the cost, of each loss if there are several, and of the metrics."""
        targets = [spec.name for spec in self.get_input_signature()[len(self._specs[0]) :]]
        of_target = [""] if len(targets) == 1 else [f"{target}_" for target in targets]
        losses = [f"{prefix}loss" for prefix in of_target if prefix]
        return ["total_loss", *losses, *(prefix + metric.name for prefix in of_target for metric in self._metrics)]

    def make_model(self) -> Any:
        """Return a new Keras model.

        Raises:
            GraphBuildError: The function returns something else.
        """
        if _takes_inputs(self._get_model):
            specs = self.get_input_signature()[: len(self._specs[0])]
            shapes = [spec.shape.as_list()[1:] for spec in specs]
            symbols = [
                keras.Input(shape, dtype=spec.dtype.name, name=spec.name)
                for shape, spec in zip(shapes, specs, strict=True)
            ]
            model = self._get_model(*symbols)
        else:
            model = self._get_model()
        if not isinstance(model, keras.Model):
            raise GraphBuildError(f"get_model must return a keras.Model, got {shown(model)}")
        return model

    def weights(self, session: tf.Session) -> list[np.ndarray]:
        """Return what the weights of the main tower's model are in a session, in Keras's order.

        Args:
            session: in which the model is trained.

        Raises:
            ConfigError: The model was not built for training yet.
        """
        if self.keras_model is None:
            raise ConfigError("the weights of a Keras model are those of a tower that trains, and there is none yet")
        values: list[np.ndarray] = session.run([weight.value for weight in self.keras_model.weights])
        return values

    def save_keras(self, path: str | os.PathLike[str], weights: Sequence[np.ndarray]) -> None:
        """Write the model to a ``.keras`` file, which Keras can load anywhere.

        Args:
            path: the file.
            weights: what `weights` returned.
        """
        with eager_mode():
            model = self.make_model()
            specs = self.get_input_signature()[: len(self._specs[0])]
            zeros = [np.zeros([n or 1 for n in spec.shape.as_list()], spec.dtype.as_numpy_dtype) for spec in specs]
            _call(model, [tf.convert_to_tensor(each) for each in zeros], training=False)
            model.set_weights(list(weights))
            model.save(os.fspath(path))


class KerasModel:
    """A Keras model, its data and a trainer, with the methods that tensorpack had for them.

    Args:
        get_model: returns the model, see `KerasDesc`.
        input_signature: what the inputs are.
        target_signature: what the targets are.
        input: the data: inputs, then targets.
        trainer: None for one tower.
        inputs_desc: the older name of ``input_signature``; ``get_model`` is then given one list of all inputs.
        targets_desc: the older name of ``target_signature``.

    Raises:
        WrongTypeError: The data or the trainer are something else.

    Example:
        model = KerasModel(make_model, image_spec, label_spec, QueueInput(dataflow), SyncMultiGPUTrainer(2))
        model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        model.fit(validation_data=test_dataflow, steps_per_epoch=100, max_epoch=5, callbacks=[ModelSaver()])
        model.save("mnist.keras")
    """

    @check_arguments
    def __init__(
        self,
        get_model: Callable[..., Any],
        input_signature: Any = None,
        target_signature: Any = None,
        input: DataFlow | InputSource | None = None,
        trainer: SingleCostTrainer | None = None,
        *,
        inputs_desc: Any = None,
        targets_desc: Any = None,
    ) -> None:
        self._get_model = get_model if inputs_desc is None else _with_list(get_model)
        self._specs = (
            input_signature if inputs_desc is None else inputs_desc,
            target_signature if targets_desc is None else targets_desc,
        )
        if input is None or any(spec is None for spec in self._specs):
            raise ConfigError("KerasModel needs input_signature, target_signature and input, the data")
        self.input = QueueInput(input) if isinstance(input, DataFlow) else input
        self.trainer = SimpleTrainer() if trainer is None else trainer
        self._desc: KerasDesc | None = None
        self._weights: list[np.ndarray] | None = None

    def compile(
        self,
        optimizer: Any,
        loss: Loss | Sequence[Loss],
        metrics: Metric | Sequence[Metric] | None = None,
    ) -> None:
        """Say how the model is trained; the arguments are those of `KerasDesc`.

        Raises:
            ConfigError: Keras cannot do it in a graph.
        """
        self._desc = KerasDesc(self._get_model, *self._specs, optimizer=optimizer, loss=loss, metrics=metrics)

    @property
    def desc(self) -> KerasDesc:
        """The model as a description, for predictors.

        Raises:
            ConfigError: `compile` was not called.
        """
        if self._desc is None:
            raise ConfigError("KerasModel is not compiled: call compile(optimizer, loss, metrics) first")
        return self._desc

    def fit(self, validation_data: DataFlow | InputSource | None = None, **kwargs: Any) -> None:
        """Train the model.

        Args:
            validation_data: on which the cost and the metrics are computed after each epoch, too.
            **kwargs: as for `TrainConfig`, such as ``max_epoch``, ``steps_per_epoch`` and ``callbacks``.

        Raises:
            ConfigError: `compile` was not called, an argument is none of `TrainConfig`, or the model was trained.
        """
        desc, callbacks = self.desc, list(kwargs.pop("callbacks", None) or [])
        foreign = [each for each in callbacks if isinstance(each, keras.callbacks.Callback)]
        if foreign:
            raise WrongTypeError(f"Keras calls its own callbacks, such as {shown(foreign[0])}, only in eager training")
        if validation_data is not None:
            callbacks.append(InferenceRunner(validation_data, ScalarStats(desc.stat_names)))
        callbacks.append(_KeepWeights(self._keep_weights))
        config = TrainConfig(data=self.input, model=desc, callbacks=callbacks, **kwargs)
        launch_train_with_config(config, self.trainer)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trained model to a ``.keras`` file.

        Raises:
            ConfigError: It was not trained.
        """
        if self._weights is None:
            raise ConfigError("KerasModel.save needs a model that was trained: call fit() first")
        self.desc.save_keras(path, self._weights)

    def _keep_weights(self, session: tf.Session) -> None:
        self._weights = self.desc.weights(session)


def setup_keras_trainer(
    trainer: SingleCostTrainer,
    get_model: Callable[..., Any],
    input_signature: Specs,
    target_signature: Specs,
    input: InputSource,
    optimizer: Any,
    loss: Loss | Sequence[Loss],
    metrics: Metric | Sequence[Metric] | None = None,
) -> KerasDesc:
    """Build the graph of a Keras model with a trainer, which is then trained by ``trainer.train_with_defaults(...)``.

    Returns:
        The description of the model.

    Raises:
        ConfigError: As for `KerasDesc`.
    """
    desc = KerasDesc(get_model, input_signature, target_signature, optimizer=optimizer, loss=loss, metrics=metrics)
    trainer.setup_graph(desc.get_input_signature(), input, desc.build_graph, desc.get_optimizer)
    return desc


class _Clones:
    """Makes models like one that was made in eager mode, with its weights.

    Args:
        model: the model.

    Raises:
        ConfigError: It has no weights yet, or was made in a graph.
    """

    def __init__(self, model: Any) -> None:
        if not model.built:
            raise ConfigError(
                f"KerasDesc got {shown(model)}, which has no weights yet, since it was never called or built: call it "
                "with some data, or give a function that makes it"
            )
        self._model = model
        try:
            with eager_mode():
                self._weights = model.get_weights()
        except (AttributeError, NotImplementedError, TypeError) as error:
            raise ConfigError(
                f"KerasDesc got {shown(model)}, whose weights are in a graph: make it in eager mode, outside of any "
                "tf.Graph, or give a function that makes it"
            ) from error

    def make(self) -> Any:
        """Return a new model in the current graph, or in eager mode."""
        clone = keras.models.clone_model(self._model)
        if not clone.built:
            clone.build_from_config(self._model.get_build_config())
        clone.set_weights(self._weights)
        return clone


def _inputs_of(model: Any) -> list[tf.TensorSpec]:
    """Return what a model takes, as far as it knows."""
    inputs = getattr(model, "inputs", None)
    if not inputs:
        raise ConfigError(
            f"KerasDesc needs input_signature, since {shown(model)} does not know its inputs: only functional and "
            "sequential models do"
        )
    return [tf.TensorSpec(each.shape, each.dtype, each.name) for each in inputs]


def _targets_of(model: Any, losses: Sequence[Loss]) -> list[tf.TensorSpec]:
    """Return what the targets of a model's outputs are, by its losses."""
    outputs = getattr(model, "outputs", None)
    if not outputs:
        raise ConfigError(f"KerasDesc needs target_signature, since {shown(model)} does not know its outputs")
    names = ["target"] if len(outputs) == 1 else [f"target_{k}" for k in range(len(outputs))]
    specs = []
    for output, loss, name in zip(outputs, losses, names, strict=False):
        found = keras.losses.get(loss)
        is_sparse = "sparse" in getattr(found, "__name__", type(found).__name__).lower()
        shape = output.shape[:-1] if is_sparse else output.shape
        specs.append(tf.TensorSpec(shape, tf.int32 if is_sparse else output.dtype, name))
    return specs


class _KeepWeights(Callback):
    """Call a function with the session when training is over, as long as there is one."""

    def __init__(self, keep: Callable[[tf.Session], None]) -> None:
        self._keep = keep

    def _after_train(self) -> None:
        self._keep(self.trainer.sess)


class KerasPhaseCallback(Callback):
    """A name that scripts know: whether a tower trains is in the graph today, and nothing is left to do.

    Args:
        is_train: not used.
    """

    def __init__(self, is_train: bool) -> None:
        say("KerasPhaseCallback", "nothing: towers tell Keras whether they train")


def _as_list(value: Any) -> list[Any]:
    """Return several things as a list, and one as a list of it."""
    return list(value) if isinstance(value, (list, tuple)) and not isinstance(value, tf.TensorSpec) else [value]


def _with_list(get_model: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """Return a function that gives another one all inputs as a list."""
    say("KerasModel(inputs_desc=)", "input_signature=, with a get_model whose arguments are the inputs")
    return lambda *inputs: get_model(list(inputs))


def _takes_inputs(function: Callable[..., Any]) -> bool:
    """Tell whether a function that makes a model wants the inputs."""
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    return any(p.default is p.empty for p in positional)


def _call(model: Any, inputs: Sequence[tf.Tensor], *, training: bool) -> list[tf.Tensor]:
    """Return the outputs of a Keras model."""
    return _as_list(model(inputs[0] if len(inputs) == 1 else list(inputs), training=training))
