"""Keras 3 models on tpack's trainers: `KerasModel` describes one, `fit` trains it in one line."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {"model": ("KerasModel",), "training": ("fit",)})
