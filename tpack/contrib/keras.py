"""tensorpack's ``contrib.keras``, for its scripts: a Keras model, its data and a trainer in one object.

New code uses `tpack.KerasModel`, an ordinary model description for `launch_train_with_config` or `tpack.fit`. This
module has tensorpack's names and methods, on top of it.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from tpack.callbacks.base import Callback
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.dataflow.base import DataFlow
from tpack.errors import ConfigError
from tpack.input_source.base import InputSource
from tpack.input_source.queue_input import QueueInput
from tpack.keras import model as described
from tpack.keras.losses_metrics import Loss, Metric
from tpack.keras.training import check_callbacks
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.single_cost import SingleCostTrainer
from tpack.train.trainers import SimpleTrainer
from tpack.utils.renames import say
from tpack.utils.validation import check_arguments

__all__ = ["KerasModel", "KerasPhaseCallback", "setup_keras_trainer"]


class KerasModel:
    """A Keras model, its data and a trainer, with tensorpack's methods.

    Args:
        get_model: returns the model, see `tpack.KerasModel`.
        input_signature: the specs of the inputs.
        target_signature: the specs of the targets.
        input: the data: inputs, then targets.
        trainer: None for one tower.
        inputs_desc: the older name of ``input_signature``; ``get_model`` then gets one list of all inputs.
        targets_desc: the older name of ``target_signature``.

    Raises:
        ConfigError: A signature or the data are missing.
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
            raise ConfigError("KerasModel got None: expected input_signature, target_signature and input, the data")
        self.input = QueueInput(input) if isinstance(input, DataFlow) else input
        self.trainer = SimpleTrainer() if trainer is None else trainer
        self._desc: described.KerasModel | None = None

    def compile(
        self, optimizer: Any, loss: Loss | Sequence[Loss], metrics: Metric | Sequence[Metric] | None = None
    ) -> None:
        """Set the optimizer, loss and metrics; the arguments are those of `tpack.KerasModel`.

        Raises:
            ConfigError: Keras cannot use them in a graph.
        """
        self._desc = _described(self._get_model, self._specs, optimizer, loss, metrics)

    @property
    def desc(self) -> described.KerasModel:
        """The model as a description, for predictors.

        Raises:
            ConfigError: `compile` was not called.
        """
        if self._desc is None:
            raise ConfigError("KerasModel is not compiled; use compile(optimizer, loss, metrics) first")
        return self._desc

    def fit(self, validation_data: DataFlow | InputSource | None = None, **kwargs: Any) -> None:
        """Train the model.

        Args:
            validation_data: data for the cost and the metrics after each epoch.
            **kwargs: as for `TrainConfig`, such as ``max_epoch``, ``steps_per_epoch`` and ``callbacks``.

        Raises:
            ConfigError: `compile` was not called, an argument is unknown to `TrainConfig`, or the model was trained.
        """
        desc, callbacks = self.desc, list(kwargs.pop("callbacks", None) or [])
        check_callbacks(callbacks)
        if validation_data is not None:
            callbacks.append(InferenceRunner(validation_data, desc.inferencers()))
        config = TrainConfig(data=self.input, model=desc, callbacks=callbacks, **kwargs)
        launch_train_with_config(config, self.trainer)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trained model to a ``.keras`` file.

        Raises:
            ConfigError: It was not trained.
        """
        self.desc.export_keras(path)


def setup_keras_trainer(
    trainer: SingleCostTrainer,
    get_model: Callable[..., Any],
    input_signature: Any,
    target_signature: Any,
    input: InputSource,
    optimizer: Any,
    loss: Loss | Sequence[Loss],
    metrics: Metric | Sequence[Metric] | None = None,
) -> described.KerasModel:
    """Build the graph of a Keras model for ``trainer.train_with_defaults(...)``, and return the model's description.

    Raises:
        ConfigError: As for `tpack.KerasModel`.
    """
    desc = _described(get_model, (input_signature, target_signature), optimizer, loss, metrics)
    trainer.setup_graph(desc.get_input_signature(), input, desc.build_graph, desc.get_optimizer)
    trainer.model = desc
    trainer.register_callback(desc.callbacks_for_training())
    return desc


class KerasPhaseCallback(Callback):
    """A name for scripts, without effect: the graph itself knows whether a tower trains.

    Args:
        is_train: not used.
    """

    def __init__(self, is_train: bool) -> None:
        say("KerasPhaseCallback", "nothing: towers tell Keras whether they train")


def _described(get_model: Any, specs: tuple[Any, Any], optimizer: Any, loss: Any, metrics: Any) -> described.KerasModel:
    return described.KerasModel(
        get_model, optimizer=optimizer, loss=loss, metrics=metrics, input_signature=specs[0], target_signature=specs[1]
    )


def _with_list(get_model: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """Return a function that passes all inputs to another one as a list."""
    say("KerasModel(inputs_desc=)", "input_signature=, with a get_model whose arguments are the inputs")
    return lambda *inputs: get_model(list(inputs))
