"""Trainers whose model is a tower function: they know its towers and can build predictors of it."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import TowerError
from tpack.graph_builder.compiled import TowerCompiler
from tpack.graph_builder.predict import build_predict_tower
from tpack.predict.online import OnlinePredictor
from tpack.tower.tower_func import TowerFunc, TowerHandle, TowerHandles
from tpack.train.trainer import Trainer
from tpack.utils.renames import set_tower_func
from tpack.utils.validation import check_instance


class TowerTrainer(Trainer):
    """Base of trainers that build a model by calling a tower function.

    A subclass sets `tower_func`, calls it once in each tower and sets ``train_op``; a model with several costs, such
    as a GAN, does so in its ``__init__``.

    Attributes:
        compiler: what marks the towers' operations for XLA; None where nothing is compiled.
    """

    compiler: TowerCompiler | None = None

    def __init__(self) -> None:
        super().__init__()
        self._tower_func: TowerFunc | None = None

    @property
    def tower_func(self) -> TowerFunc:
        """The tower function.

        Raises:
            TowerError: From reading it before it was set.
        """
        if self._tower_func is None:
            raise TowerError(f"{type(self).__name__} has no tower function yet: set trainer.tower_func first")
        return self._tower_func

    @tower_func.setter
    def tower_func(self, tower_func: TowerFunc) -> None:
        """Set the tower function.

        Raises:
            ConfigError: It is not a `TowerFunc`.
        """
        self._tower_func = check_instance(self, "tower_func", tower_func, TowerFunc)

    set_tower_func = set_tower_func

    @property
    def input_signature(self) -> list[Any]:
        """What the inputs of the tower function are, as ``tf.TensorSpec``."""
        return self.tower_func.input_signature

    @property
    def towers(self) -> TowerHandles:
        """A handle of each tower built so far."""
        return self.tower_func.towers

    def get_predictor(
        self, input_names: Sequence[str], output_names: Sequence[str], device: int = 0
    ) -> OnlinePredictor:
        """Return a function on numpy data that runs the model, for prediction, with the current weights.

        The first call for a device builds a tower there, so it must come before the session is created: in a callback,
        in ``_setup_graph``.

        Args:
            input_names: names of inputs, or of any other tensors to be given.
            output_names: names of tensors to be returned.
            device: a GPU number, or -1 for the CPU.

        Raises:
            TowerError: There is no tensor of one of the names, or training has started.
            DeviceError: The machine has GPUs, and not this one.
        """
        tower = self._predict_tower(device)
        inputs, outputs = tower.get_tensors(input_names), tower.get_tensors(output_names)
        if self.compiler is not None and not self.graph.finalized:
            self.compiler.mark(tower.context, outputs)
        return OnlinePredictor(inputs, outputs)

    def _predict_tower(self, device: int) -> TowerHandle:
        name = f"tower-pred-{'cpu' if device == -1 else device}"
        for tower in self.towers:
            if tower.name == name:
                return tower
        if self.graph.finalized:
            raise TowerError("get_predictor must be called before training starts: in the _setup_graph of a callback")
        main = self.towers.training()
        with self.graph.as_default():
            return build_predict_tower(
                self.tower_func,
                self._placeholders,
                name=name,
                device=device,
                vs_name=main[0].vs_name if main else "",
                compiler=self.compiler,
            )

    def _placeholders(self) -> list[Any]:
        return [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in self.input_signature]
