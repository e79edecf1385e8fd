"""`KerasModel`: a Keras 3 model with its loss, optimizer and metrics, for every trainer.

It is an ordinary model description for all trainers, builders, predictors and inference callbacks. Each tower makes its
own Keras model and calls it with its inputs, so that each trainer's rules for variables hold for the model's too.
Updates of layers, such as moving averages, run with each step, and losses of regularizers are part of the cost.

Training happens in a graph. Features of Keras that need eager mode, such as ``fit`` callbacks, are errors that name the
replacement.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from types import FunctionType
from typing import Any

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.inference.inferencers import Inferencer
from tpack.compat.keras import elementwise_equality
from tpack.compat.runtime import eager_mode
from tpack.errors import ConfigError, GraphBuildError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.keras.bound_model import BoundModel, global_seeds, own_global_seeds
from tpack.keras.cloning import (
    ModelMaker,
    call,
    has_synchronised,
    inputs_of,
    meeting_tower,
    names_of_outputs,
    targets_of,
)
from tpack.keras.layout import OUTPUT, SHARE, Layout, Parts, flatten, zeros_of
from tpack.keras.losses_metrics import (
    COMPUTE_LOSS,
    COMPUTE_METRICS,
    OutputLosses,
    cost_dtype,
    for_each_output,
    has_own,
    metrics_by_output,
    own_metrics,
    refuse_own_steps,
)
from tpack.keras.metric_states import (
    EpochStatistics,
    MetricState,
    OutputState,
    OwnState,
    StateStats,
    WeightedStats,
    capture_updates,
    refused_updates,
)
from tpack.keras.optimizers import as_optimizer_function
from tpack.tower.collections import STATISTICS_KEY
from tpack.tower.context import current_tower_context
from tpack.utils.validation import check_arguments

NUM_ROWS = "num_examples"


@check_arguments
class KerasModel(ModelDesc):
    """A Keras model with its loss, optimizer and metrics, as a model description.

    The cost, ``total_loss``, is the sum of the losses of all outputs and of the layers, such as regularizers. It, the
    loss of each output if there are several, and the metrics are statistics of training, over the examples of an epoch,
    named after the output as in Keras: ``cls_loss``, ``cls_accuracy``.

    Batch normalisation uses the batch of each tower, as usual, and the first tower's moving averages are saved. Layers
    made with ``synchronized=True`` use the batches of all towers: then K towers train as one with the whole batch.

    A class of a model may have its own ``compute_loss`` and ``compute_metrics``; ``train_step`` and ``test_step`` are
    refused, since Keras runs them eagerly with its optimizer.

    Args:
        model: a Keras model, made or loaded outside of any graph, as the initial state, which does not change; or a
            function that returns a functional, sequential or subclassed one. It is called in each tower, with Keras
            tensors of the inputs if it takes arguments.
        optimizer: one of ``tf.train`` or `tpack.optimizers`, a function that returns one, or a name or object of Keras:
            Adam, AdamW, Lion, RMSprop or SGD, with a number or a schedule as learning rate, of which the equivalent in
            graph mode is made. None, as for loss and metrics, takes what the model was compiled with.
        loss: one for each output, in a list or by name in a dict: its name, a Keras loss, or a function of targets and
            outputs.
        metrics: likewise; a list that is not as long as that of the outputs applies to each; or a list or dict of such
            lists by output.
        input_signature: specs of the inputs with names, nested as the model takes them; the first dimension is the
            batch. None takes them from a model that knows its inputs.
        target_signature: specs of the targets, one for each output of the model. None takes the shapes of the outputs,
            without the last dimension for sparse losses.
        loss_weights: the factor of each loss in the cost, by output.
        weighted_metrics: like ``metrics``, for those to which the weights of the examples apply.
        weight_signature: the specs of the weights of the examples: one for all outputs, or by output; None for none.
        share_input: there is another input, ``share_of_step``, after all others, for towers with different numbers of
            examples: in each row the factor of the tower's cost, its examples times K over those of all towers.

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
        loss: Any = None,
        metrics: Any = None,
        input_signature: Any = None,
        target_signature: Any = None,
        loss_weights: Any = None,
        weighted_metrics: Any = None,
        weight_signature: Any = None,
        share_input: bool = False,
    ) -> None:
        self._maker = ModelMaker(model)
        if optimizer is None and loss is None:
            optimizer, loss, loss_weights, metrics, weighted_metrics = _compiled(model)
        if optimizer is None or (loss is None and _compile_config(model) is None):
            raise ConfigError("KerasModel got optimizer=None or loss=None: expected both, or a compiled model")
        self._has_share = share_input
        self._make_optimizer = as_optimizer_function(optimizer)
        is_sampled = input_signature is None or target_signature is None
        sample = self._maker.sample() if is_sampled else self._maker.model
        refuse_own_steps(sample)
        self._has_seeds = False
        if self._maker.model is not None:
            # Now, since no tower is being built.
            self._has_seeds = not self._maker.can_clone() and global_seeds() is not None
        self._layout = Layout(
            inputs_of(sample) if input_signature is None else input_signature,
            targets_of(sample, loss) if target_signature is None else target_signature,
            weight_signature,
            has_share=share_input,
        )
        self._names = names_of_outputs(sample) or self._layout.target_names
        losses = for_each_output(loss, self._names)
        self._losses = OutputLosses(losses, loss_weights, self._names, len(self._layout.targets))
        plain = metrics_by_output(metrics, self._names)
        weighted = metrics_by_output(weighted_metrics, self._names, is_weighted=True)
        self._metrics = [[*first, *second] for first, second in zip(plain, weighted, strict=True)]
        self._compiling = {"loss": loss, "metrics": metrics, "weighted_metrics": weighted_metrics}
        self._has_own_loss = has_own(sample, COMPUTE_LOSS)
        has_own_metrics = has_own(sample, COMPUTE_METRICS) or (self._has_own_loss and bool(own_metrics(sample)))
        self._own_state = OwnState(self._layout, self._counting_model) if has_own_metrics else None
        self._session: tf.Session | None = None
        self._weights: list[np.ndarray] | None = None
        self.keras_model: Any = None

    def inputs(self) -> list[tf.TensorSpec | tf.Tensor]:
        """Return the inputs, the targets and the weights."""
        return list(self._layout.specs)

    def optimizer(self) -> tf.train.Optimizer:
        """Return the optimizer."""
        optimizer: tf.train.Optimizer = self._make_optimizer()
        return optimizer

    def build_graph(self, *inputs: tf.Tensor) -> tf.Tensor:
        """Build the model in the current tower, and return its cost.

        Raises:
            GraphBuildError: The function returns something else than a Keras model, or one with other outputs or with
                methods of its own that were not known before.
        """
        with elementwise_equality(), own_global_seeds(is_made=self._has_seeds):
            return self._build(inputs)

    def _build(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        tower, parts = current_tower_context(), self._layout.unpack(inputs)
        model = self._maker.in_tower(self._layout.inputs)
        self._check_methods(model)
        with refused_updates(model.model if isinstance(model, BoundModel) else model):
            y_pred = _outputs_of(model, parts.x, training=tower.is_training)
        outputs = self._flat_outputs(y_pred)
        if tower.is_main_tower and tower.is_training:
            self.keras_model = model
        tf.shape(inputs[0], name=NUM_ROWS)
        targets, weights = self._by_output(parts.y), self._weights_by_output(parts.weight)
        losses = self._losses.compute(targets, outputs, weights) if not self._has_own_loss else []
        total = self._total(model, parts, y_pred, losses, training=tower.is_training)
        share = None if parts.share is None else tf.cast(parts.share[0], total.dtype)
        cost = tf.identity(total, "total_loss") if share is None else tf.multiply(total, share, "total_loss")
        found = [loss for loss in losses if loss is not None]
        plain = [(metric, k) for _, metric, k in self._named_metrics() if not metric.has_state]
        values = [metric.compute(targets[k], outputs[k]) for metric, k in ([] if self._own_state else plain)]
        shown = [*(found if len(found) > 1 else []), *values]
        stats = [cost]
        for value, name in zip(shown, self.stat_names[1:], strict=True):
            stats.append(tf.identity(value if share is None else value * share, name))
        for stat in stats if tower.is_training else ():
            tf.add_to_collection(STATISTICS_KEY, stat)
        return cost

    @property
    def stat_names(self) -> list[str]:
        """The names of the cost, of each loss if there are several, and of the metrics without a state."""
        metrics = [] if self._own_state else [name for name, metric, _ in self._named_metrics() if not metric.has_state]
        return ["total_loss", *self._loss_names, *metrics]

    @property
    def _loss_names(self) -> list[str]:
        # Keras takes their means over the batches, whose sizes it does not know, and that of the cost over the rows.
        has_loss = [] if self._has_own_loss else [loss is not None for loss in self._losses.losses]
        losses = [f"{name}_loss" for name, is_there in zip(self._names, has_loss, strict=False) if is_there]
        return losses if len(losses) > 1 else []

    def metric_states(self) -> list[MetricState]:
        """Return the metrics with a state, those that Keras computes with its own objects."""
        if self._own_state:
            return [self._own_state]
        names = self._layout.names
        targets, weights = self._by_output(names.y), self._weights_by_output(names.weight)
        return [
            OutputState(metric, name, (targets[k], f"{OUTPUT}_{k}"), weights[k] if metric.is_weighted else None)
            for name, metric, k in self._named_metrics()
            if metric.has_state
        ]

    def inferencers(self, prefix: str = "validation") -> list[Inferencer]:
        """Return the inferencers of the cost and all metrics over a validation set, whose statistics have a prefix."""
        kept = [StateStats(state, prefix) for state in self.metric_states()]
        return [WeightedStats(self.stat_names, NUM_ROWS, prefix, self._loss_names), *kept]

    def callbacks_for_training(self) -> list[Callback]:
        """Return the callbacks that keep the trained weights, and give statistics over the examples of an epoch."""
        rows = (NUM_ROWS, SHARE if self._has_share else None)
        return [_KeepWeights(self), EpochStatistics(self.stat_names, rows, self.metric_states(), self._loss_names)]

    def make_model(self) -> Any:
        """Return a new Keras model, in the current graph or in eager mode.

        Raises:
            GraphBuildError: The function returns something else.
        """
        return self._maker.make(self._layout.inputs)

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
            if self._maker.model is not None and not self._maker.can_clone():
                _save_with(self._maker.model, values, os.fspath(path))
                return
            model = self.make_model()
            call(model, self._layout.unpack(zeros_of(self._layout.specs)).x, training=False)
            model.set_weights(values)
            config = _compile_config(self._maker.model)
            if config:
                with keras.saving.custom_object_scope(_own_objects(self._maker.model)):
                    model.compile_from_config(config)
            model.save(os.fspath(path))

    def _total(self, model: Any, parts: Parts, y_pred: Any, losses: Sequence[Any], *, training: bool) -> tf.Tensor:
        """Return the sum of all losses, or what the model's own ``compute_loss`` returns."""
        if not self._has_own_loss:
            added = [tf.reduce_sum(tf.cast(loss, cost_dtype())) for loss in model.losses]
            parts_of_cost = [*self._losses.weighted(losses), *added]
            if not parts_of_cost:
                raise GraphBuildError("the Keras model has loss=None and no losses of its layers: expected one of them")
            return tf.add_n(parts_of_cost)
        with model.inside() if isinstance(model, BoundModel) else nullcontext(model) as own:
            before, own._compile_loss = own._compile_loss, self._loss_of_nests
            try:
                with capture_updates(own, self._own_state):
                    total = own._compute_loss(
                        x=parts.x, y=parts.y, y_pred=y_pred, sample_weight=parts.weight, training=training
                    )
            finally:
                own._compile_loss = before
        return tf.cast(total, cost_dtype())

    def _loss_of_nests(self, y: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        """Return the sum of the outputs' losses, as Keras's own ``compute_loss`` asks for it."""
        columns = self._by_output(y), self._flat_outputs(y_pred, is_named=False), self._weights_by_output(sample_weight)
        return tf.add_n(self._losses.weighted(self._losses.compute(*columns)))

    def _check_methods(self, model: Any) -> None:
        model = model.model if isinstance(model, BoundModel) else model
        refuse_own_steps(model)
        for method, is_known in ((COMPUTE_LOSS, self._has_own_loss), (COMPUTE_METRICS, self._own_state is not None)):
            if has_own(model, method) and not is_known:
                raise GraphBuildError(
                    f"the function of a KerasModel returned a {type(model).__name__} with its own {method}: expected "
                    "it to be known before; use KerasModel(model) with a model that was built"
                )

    def _flat_outputs(self, y_pred: Any, *, is_named: bool = True) -> list[tf.Tensor]:
        """Return the outputs in the order of their names, and name them for inferencers.

        Raises:
            GraphBuildError: There are others.
        """
        if not self._names:
            return []
        is_dict = isinstance(y_pred, Mapping)
        is_known = set(y_pred) == set(self._names) if is_dict else len(flatten(y_pred)) == len(self._names)
        if not is_known:
            have = ", ".join(sorted(map(str, y_pred))) if is_dict else len(flatten(y_pred))
            raise GraphBuildError(
                f"the Keras model has {have} output(s): expected {len(self._names)}, the targets "
                f"{', '.join(self._names)}"
            )
        outputs = [y_pred[name] for name in self._names] if is_dict else flatten(y_pred)
        if is_named:
            if self._own_state:
                self._own_state.note(y_pred, self._names)
            for k, output in enumerate(outputs):
                tf.identity(output, f"{OUTPUT}_{k}")
        return outputs

    def _by_output(self, y: Any) -> list[Any]:
        """Return the target of each output; None without one."""
        return [y.get(name) for name in self._names] if isinstance(y, Mapping) else self._losses.paired(flatten(y))

    def _weights_by_output(self, weight: Any) -> list[Any]:
        """Return the weights of the examples for each output; None for none."""
        return for_each_output(weight, self._names)

    def _named_metrics(self) -> list[tuple[str, Any, int]]:
        """Return the metrics with Keras's names, in which an output's name is the prefix, and the output's number."""
        found: list[tuple[str, Any, int]] = []
        known: dict[str, int] = {}
        several = len(self._names) > 1
        all_metrics = [(k, metric) for k, metrics in enumerate(self._metrics) for metric in metrics]
        for k, metric in sorted(all_metrics, key=lambda pair: pair[1].is_weighted):
            prefix = f"{self._names[k]}_" if several else ""
            name = prefix + metric.name
            if name in known and metric.is_weighted:
                name = f"{prefix}weighted_{metric.name}"
            known[name] = known.get(name, 0) + 1
            found.append((name if known[name] == 1 else f"{name}_{known[name] - 1}", metric, k))
        return found

    def _counting_model(self) -> Any:
        """Return an eager model, compiled, whose metrics can be changed."""
        model = self._maker.model
        with eager_mode():
            if model is None or not model.compiled:
                model = self.make_model()
                model.compile(**self._compiling)
        return model


class _KeepWeights(Callback):
    """Gives a model its session during training, and keeps its last weights."""

    def __init__(self, model: KerasModel) -> None:
        self._model = model

    def _before_train(self) -> None:
        self._model._session = self.trainer.sess

    def _after_train(self) -> None:
        self._model._session = None
        self._model._weights = self._model.weights(self.trainer.sess)


def _outputs_of(model: Any, x: Any, *, training: bool) -> Any:
    """Return the outputs of a model in the current tower.

    Raises:
        GraphBuildError: A synchronised layer was made during the call.
    """
    meets = training and has_synchronised(model)
    with meeting_tower() if meets else nullcontext():
        outputs = call(model, x, training=training)
    if training and not meets and has_synchronised(model):
        raise GraphBuildError(
            "the call of a Keras model made a layer with synchronized=True: expected all of them in its __init__"
        )
    return outputs


def _compiled(model: Any) -> tuple[Any, ...]:
    """Return a compiled Keras model's optimizer, loss, loss weights, metrics and weighted metrics; else None each."""
    if _compile_config(model) is None:
        return (None,) * 5
    compiled_loss = getattr(model, "_compile_loss", None)
    return (
        model.optimizer,
        None if compiled_loss is None else model.loss,
        getattr(compiled_loss, "_user_loss_weights", None),
        *(
            getattr(getattr(model, "_compile_metrics", None), f"_user_{kind}metrics", None)
            for kind in ("", "weighted_")
        ),
    )


def _save_with(model: Any, weights: Sequence[np.ndarray], path: str) -> None:
    """Write a model that cannot be cloned with other weights than its own."""
    before = model.get_weights()
    model.set_weights(weights)
    try:
        model.save(path)
    finally:
        model.set_weights(before)


def _own_objects(model: Any) -> dict[str, Any]:
    """Return functions and classes of losses and metrics that are not Keras's, by their names."""
    given = flatten(list(_compiled(model)))[1:]
    wrapped = [getattr(each, name, None) for each in given for name in ("fn", "_fn")]
    parts = [each if isinstance(each, FunctionType | type) else type(each) for each in [*given, *wrapped]]
    return {part.__name__: part for part in parts if part.__module__.split(".")[0] not in ("keras", "builtins")}


def _compile_config(model: Any) -> dict[str, Any] | None:
    """Return Keras's description of how a model was compiled; None if it was not."""
    if not isinstance(model, keras.Model) or not getattr(model, "compiled", False):
        return None
    with eager_mode():
        return model.get_compile_config() or {}
