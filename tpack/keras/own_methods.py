"""Methods that a class of a Keras model overrides: those that a graph can run, and those that are refused."""

from typing import Any

import keras

from tpack.errors import ConfigError

COMPUTE_LOSS, COMPUTE_METRICS = "compute_loss", "compute_metrics"

_REFUSED = ("train_step", "test_step", "make_train_function", "make_test_function")


def has_own(model: Any, method: str) -> bool:
    """Tell whether the class of a model, if there is one, overrides a method of ``keras.Model``."""
    return model is not None and getattr(type(model), method) is not getattr(keras.Model, method)


def refuse_own_steps(model: Any) -> None:
    """Refuse a model with its own steps.

    Raises:
        ConfigError: It has.
    """
    for method in _REFUSED:
        if has_own(model, method):
            raise ConfigError(
                f"KerasModel got a {type(model).__name__} with its own {method}, which Keras runs eagerly with its "
                "optimizer: expected at most its own compute_loss and compute_metrics; use compute_loss(self, x, y, "
                "y_pred, sample_weight, training) for another cost, a ModelDesc for the layers in a graph, or a "
                "trainer of your own for several optimizers"
            )


def own_metrics(model: Any) -> list[keras.metrics.Metric]:
    """Return the metrics that are attributes of a model or its layers, in an order that equal models share."""
    return [metric for layer in model._flatten_layers() for metric in layer._metrics]
