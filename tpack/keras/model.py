"""`KerasModel`: a Keras 3 model with its loss, optimizer and metrics, for every trainer.

It is an ordinary model description for all trainers, builders, predictors and inference callbacks. Each tower makes its
own Keras model and calls it with its inputs, so that each trainer's rules for variables hold for the model's too.
Updates of layers, such as moving averages, run with each step, and losses of regularizers are part of the cost.

Training happens in a graph. Features of Keras that need eager mode, such as ``fit`` callbacks, are errors that name the
replacement.
"""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from types import FunctionType
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.inference.inferencers import Inferencer
from tpack.compat import eager_mode
from tpack.errors import ConfigError, GraphBuildError, WrongTypeError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.keras.cloning import ModelMaker, as_list, call, has_synchronised, inputs_of, meeting_tower, targets_of
from tpack.keras.evaluation import KeeperStats, WeightedStats
from tpack.keras.losses_metrics import KerasLoss, KerasMetric, Loss, for_each_output
from tpack.keras.optimizers import as_optimizer_function
from tpack.tower.collections import STATISTICS_KEY
from tpack.tower.context import current_tower_context
from tpack.utils.validation import check_arguments, mismatch

Specs: TypeAlias = Sequence[tf.TensorSpec | tf.Tensor] | tf.TensorSpec
OUTPUT, NUM_ROWS = "keras_output", "num_examples"


@check_arguments
class KerasModel(ModelDesc):
    """A Keras model with its loss, optimizer and metrics, as a model description.

    The cost, ``total_loss``, is the sum of the losses of all outputs and of the layers, such as regularizers. It and
    the metrics, means over a batch, are statistics of training, averaged over the towers, and tensors of these names.
    Metrics that Keras keeps in variables, such as an AUC, are statistics of validation alone.

    Batch normalisation uses the batch of each tower, as usual, and the first tower's moving averages are saved. Layers
    made with ``synchronized=True`` use the batches of all towers: then K towers train as one with the whole batch.

    Args:
        model: a Keras model, made or loaded outside of any graph, as the initial state, which does not change; or a
            function that returns a functional, sequential or subclassed one. It is called in each tower, with Keras
            tensors of the inputs if it takes arguments.
        optimizer: one of ``tf.train`` or `tpack.optimizers`, a function that returns one, or a name or object of Keras:
            Adam, AdamW, Lion, RMSprop or SGD, with a number or a schedule as learning rate, of which the equivalent in
            graph mode is made. None, as for loss and metrics, takes what the model was compiled with.
        loss: one for each output: its name, a Keras loss, or a function of targets and outputs.
        metrics: likewise; a list applies to each output; or a list or dict of such lists by output.
        input_signature: specs of the inputs with names; the first dimension is the batch. None takes them from a model
            that knows its inputs.
        target_signature: specs of the targets, one for each output of the model. None takes the shapes of the outputs,
            without the last dimension for sparse losses.

    Attributes:
        keras_model: the model of the main training tower; None before it is built.

    Raises:
        ConfigError: Keras cannot do this in a graph, the numbers of losses and targets differ, or something is neither
            given nor known.

    Example:
        model = KerasModel(keras.applications.MobileNetV2(), optimizer="adam", loss="categorical_crossentropy")
        launch_train_with_config(TrainConfig(model=model, dataflow=(x, y), batch_size=256), SyncMultiGPUTrainer(8))
    """

    def __init__(
        self,
        model: Any,
        *,
        optimizer: Any = None,
        loss: Loss | Sequence[Loss] | dict[str, Loss] | None = None,
        metrics: Any = None,
        input_signature: Specs | None = None,
        target_signature: Specs | None = None,
    ) -> None:
        self._maker = ModelMaker(model)
        if optimizer is None and loss is None:
            optimizer, loss, metrics = _compiled(model)
        if optimizer is None or loss is None:
            raise ConfigError("KerasModel got optimizer=None or loss=None: expected both, or a compiled model")
        names = list(getattr(model, "output_names", None) or [])
        losses = for_each_output(loss, names) if isinstance(loss, dict) else as_list(loss)
        self._losses = [KerasLoss(each) for each in losses]
        self._specs = self._signatures(input_signature, target_signature)
        if len(self._losses) != len(self._specs[1]):
            losses_got, targets = len(self._losses), len(self._specs[1])
            raise ConfigError(f"KerasModel got {losses_got} loss(es) for {targets} target(s): expected one for each")
        self._make_optimizer = as_optimizer_function(optimizer)
        self._metrics = _metrics_by_output(metrics, names, len(self._losses))
        self._session: tf.Session | None = None
        self._weights: list[np.ndarray] | None = None
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
            GraphBuildError: The function returns something else than a Keras model, or one with other outputs.
        """
        tower, num_inputs = current_tower_context(), len(self._specs[0])
        model, targets = self.make_model(), inputs[num_inputs:]
        outputs = _outputs_of(model, inputs[:num_inputs], training=tower.is_training)
        if len(outputs) != len(targets):
            raise GraphBuildError(f"the Keras model has {len(outputs)} output(s): expected {len(targets)}, the targets")
        if tower.is_main_tower and tower.is_training:
            self.keras_model = model
        tf.shape(inputs[0], name=NUM_ROWS)
        losses = [loss.compute(*pair) for loss, *pair in zip(self._losses, targets, outputs, strict=True)]
        cost = tf.add_n([tf.cast(loss, tf.float32) for loss in [*losses, *model.losses]], name="total_loss")
        values = [
            metric.compute(*pair)
            for metrics, *pair in zip(self._metrics, targets, outputs, strict=True)
            for metric in metrics
            if metric.keeper is None
        ]
        parts = [*(losses if len(losses) > 1 else []), *values]
        stats = [cost, *map(tf.identity, parts, self.stat_names[1:])]
        for stat in stats if tower.is_training else ():
            tf.add_to_collection(STATISTICS_KEY, stat)
        return cost

    @property
    def stat_names(self) -> list[str]:
        """The names of the cost, of each loss if there are several, and of the metrics without a state."""
        prefixes = self._prefixes()
        losses = [f"{prefix}loss" for prefix in prefixes if prefix]
        metrics = [
            prefix + metric.name
            for prefix, of_output in zip(prefixes, self._metrics, strict=True)
            for metric in of_output
            if metric.keeper is None
        ]
        return ["total_loss", *losses, *metrics]

    def inferencers(self, prefix: str = "validation") -> list[Inferencer]:
        """Return the inferencers of the cost and all metrics over a validation set, whose statistics have a prefix."""
        names, num_inputs = self.input_names, len(self._specs[0])
        keepers = [
            KeeperStats(metric.keeper, f"{prefix}_{start}{metric.name}", (names[num_inputs + k], f"{OUTPUT}_{k}"))
            for k, (start, of_output) in enumerate(zip(self._prefixes(), self._metrics, strict=True))
            for metric in of_output
            if metric.keeper is not None
        ]
        return [WeightedStats(self.stat_names, NUM_ROWS, prefix), *keepers]

    def callbacks_for_training(self) -> list[Callback]:
        """Return the callback that keeps the trained weights."""
        return [_KeepWeights(self)]

    def make_model(self) -> Any:
        """Return a new Keras model, in the current graph or in eager mode.

        Raises:
            GraphBuildError: The function returns something else.
        """
        return self._maker.make(self.get_input_signature()[: len(self._specs[0])])

    def weights(self, session: tf.Session) -> list[np.ndarray]:
        """Return the weights of the main tower's model in a session, in Keras's order.

        Raises:
            ConfigError: The model is not built for training.
        """
        if self.keras_model is None:
            raise ConfigError("this KerasModel has no weights: expected a training tower")
        values: list[np.ndarray] = session.run([weight.value for weight in self.keras_model.weights])
        return values

    def trained_weights(self) -> list[np.ndarray]:
        """Return the weights in Keras's order: the present ones during training, and the last ones after it.

        Raises:
            ConfigError: No trainer has trained the model.
        """
        if self._session is not None:
            return self.weights(self._session)
        if self._weights is None:
            raise ConfigError("this KerasModel was not trained; use launch_train_with_config or fit")
        return self._weights

    def export_keras(self, path: str | os.PathLike[str], weights: Sequence[np.ndarray] | None = None) -> None:
        """Write the model to a ``.keras`` file, which Keras can load anywhere.

        It is compiled like the given model, without the state of its optimizer.

        Args:
            path: the file.
            weights: in Keras's order; None for the trained ones.

        Raises:
            ConfigError: The model was not trained, and there are no weights.
        """
        values = self.trained_weights() if weights is None else list(weights)
        with eager_mode():
            model = self.make_model()
            specs = self.get_input_signature()[: len(self._specs[0])]
            zeros = [np.zeros([n or 1 for n in spec.shape.as_list()], spec.dtype.as_numpy_dtype) for spec in specs]
            call(model, [tf.convert_to_tensor(each) for each in zeros], training=False)
            model.set_weights(values)
            config = _compile_config(self._maker.model)
            if config:
                with keras.saving.custom_object_scope(_own_objects(self._maker.model)):
                    model.compile_from_config(config)
            model.save(os.fspath(path))

    def _signatures(self, inputs: Specs | None, targets: Specs | None) -> tuple[list[Any], list[Any]]:
        sample = self._maker.sample() if inputs is None or targets is None else None
        return (
            inputs_of(sample) if inputs is None else _checked("input_signature", inputs),
            targets_of(sample, self._losses) if targets is None else _checked("target_signature", targets),
        )

    def _prefixes(self) -> list[str]:
        """Return the prefixes of the statistics of each output: empty for a single one."""
        targets = [spec.name for spec in self.get_input_signature()[len(self._specs[0]) :]]
        return [""] if len(targets) == 1 else [f"{target}_" for target in targets]


class _KeepWeights(Callback):
    """Gives a model its session during training, and keeps its last weights."""

    def __init__(self, model: KerasModel) -> None:
        self._model = model

    def _before_train(self) -> None:
        self._model._session = self.trainer.sess

    def _after_train(self) -> None:
        self._model._session = None
        self._model._weights = self._model.weights(self.trainer.sess)


def _checked(name: str, specs: Specs) -> list[Any]:
    """Return the entries of a signature.

    Raises:
        WrongTypeError: One is something else.
    """
    for spec in as_list(specs):
        if not isinstance(spec, tf.TensorSpec | tf.Tensor):
            raise WrongTypeError(mismatch("KerasModel", name, specs, "tf.TensorSpec objects with names"))
    return as_list(specs)


def _outputs_of(model: Any, inputs: Sequence[tf.Tensor], *, training: bool) -> list[tf.Tensor]:
    """Return the outputs of a model in the current tower, by names for inferencers.

    Raises:
        GraphBuildError: A synchronised layer was made during the call.
    """
    meets = training and has_synchronised(model)
    with meeting_tower() if meets else nullcontext():
        outputs = call(model, inputs, training=training)
    if training and not meets and has_synchronised(model):
        raise GraphBuildError(
            "the call of a Keras model made a layer with synchronized=True: expected all of them in its __init__"
        )
    return [tf.identity(output, f"{OUTPUT}_{k}") for k, output in enumerate(outputs)]


def _metrics_by_output(metrics: Any, names: Sequence[str], num_outputs: int) -> list[list[KerasMetric]]:
    """Return the metrics of each output.

    Raises:
        ConfigError: There are metrics for another number of outputs, or unknown ones.
    """
    is_list = isinstance(metrics, list | tuple)
    if isinstance(metrics, dict) or (is_list and any(isinstance(each, list | tuple) for each in metrics)):
        by_output = for_each_output(metrics, names)
    else:
        by_output = [metrics] * num_outputs
    if len(by_output) != num_outputs:
        raise ConfigError(f"KerasModel got metrics for {len(by_output)} output(s) of {num_outputs}")
    return [[] if each is None else [KerasMetric(metric) for metric in as_list(each)] for each in by_output]


def _compiled(model: Any) -> tuple[Any, Any, Any]:
    """Return the optimizer, loss and metrics of a compiled Keras model; else None each."""
    if _compile_config(model) is None:
        return None, None, None
    return model.optimizer, model.loss, _given_metrics(model)


def _given_metrics(model: Any) -> Any:
    """Return the metrics given to ``compile``; None without any."""
    return getattr(getattr(model, "_compile_metrics", None), "_user_metrics", None)


def _own_objects(model: Any) -> dict[str, Any]:
    """Return functions and classes of losses and metrics that are not Keras's, by their names."""
    given = tf.nest.flatten([model.loss, _given_metrics(model)])
    wrapped = [getattr(each, name, None) for each in given for name in ("fn", "_fn")]
    parts = [each if isinstance(each, FunctionType | type) else type(each) for each in [*given, *wrapped]]
    return {part.__name__: part for part in parts if part.__module__.split(".")[0] not in ("keras", "builtins")}


def _compile_config(model: Any) -> dict[str, Any] | None:
    """Return Keras's description of how a model was compiled; None if it was not."""
    if not isinstance(model, keras.Model) or not getattr(model, "compiled", False):
        return None
    with eager_mode():
        return model.get_compile_config() or {}
