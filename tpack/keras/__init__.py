"""Keras 3 models on tpack's trainers: `KerasModel` describes one, `fit` trains it in one line."""

from tpack.keras.model import KerasModel
from tpack.keras.training import fit
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = ["KerasModel", "fit"]
