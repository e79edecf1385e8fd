"""What ready-made models have in common: their heads, and the scope that a part of a model is built in."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.estimator.heads.base import Head
from tpack.tf1.estimator.heads.classification import BinaryClassHead, MultiClassHead
from tpack.tf1.estimator.heads.regression import RegressionHead
from tpack.utils.validation import check_count, check_instance


def classification_head(
    n_classes: int, weight_column: Any, label_vocabulary: Sequence[str] | None, loss_reduction: str
) -> Head:
    """Return the head for a number of classes.

    Args:
        n_classes: at least two.
        weight_column: a key of the features, or a numeric column.
        label_vocabulary: the names of the classes, or None.
        loss_reduction: how the losses of examples become one.

    Raises:
        ConfigError: There are fewer than two classes.
    """
    if check_count("a classifier", "n_classes", n_classes, minimum=2) == 2:
        return BinaryClassHead(weight_column, None, label_vocabulary, loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)


def regression_head(label_dimension: int, weight_column: Any, loss_reduction: str) -> Head:
    """Return the head for numbers.

    Args:
        label_dimension: how many an example has.
        weight_column: a key of the features, or a numeric column.
        loss_reduction: how the losses of examples become one.
    """
    return RegressionHead(label_dimension, weight_column, loss_reduction)


def check_head(owner: object, head: Any) -> Head:
    """Return a head; refuse anything else."""
    return check_instance(owner, "head", head, Head, "a head, such as tf.estimator.MultiClassHead(3)")


def check_features(features: Any) -> None:
    """Refuse features that feature columns cannot look into.

    Raises:
        ConfigError: They are no dict.
    """
    if not isinstance(features, dict):
        raise ConfigError(f"a model with feature columns wants a dict of features, got {features!r}")


def model_scope(name: str, partitioner: Callable[..., Any]) -> Any:
    """Open the variable scope of a part of a model.

    Args:
        name: of the scope.
        partitioner: for its variables.
    """
    return tf.variable_scope(name, partitioner=partitioner, use_resource=True)
