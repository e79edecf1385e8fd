"""``tf.estimator`` of TensorFlow 1: tpack's estimators, and the ready-made models on top of them."""

from typing import Any

from tpack.tf1.missing import missing_name

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, __all__)
