"""Shared parts of ready-made models: arguments, heads, and the scope of a part of a model."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.building import WarmStartSettings
from tpack.tf1.estimator.heads.base import Head
from tpack.tf1.estimator.heads.classification import BinaryClassHead, MultiClassHead
from tpack.tf1.signatures import parameter
from tpack.utils.validation import check_count, check_instance

# Parameters that canned models have besides those of the models with any head.
CLASSES = {
    "n_classes": 2,
    "weight_column": None,
    "label_vocabulary": parameter("label_vocabulary", Sequence[str] | None, None),
}
NUMBERS = {"label_dimension": 1, "weight_column": None}
WARM_START = {"warm_start_from": parameter("warm_start_from", str | WarmStartSettings | None, None)}
LOSS = {"loss_reduction": tf.losses.Reduction.SUM}


def classification_head(
    n_classes: int, weight_column: Any, label_vocabulary: Sequence[str] | None, loss_reduction: str
) -> Head:
    """Return the head for ``n_classes`` classes; raise ConfigError if there are fewer than two classes."""
    if check_count("a classifier", "n_classes", n_classes, minimum=2) == 2:
        return BinaryClassHead(weight_column, None, label_vocabulary, loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)


def check_head(owner: object, head: Any) -> Head:
    """Return a head; refuse anything else."""
    return check_instance(owner, "head", head, Head, "a head, such as tf.estimator.MultiClassHead(3)")


def check_features(features: Any) -> None:
    """Check that features are a dict, for feature columns; raise ConfigError if they are not."""
    if not isinstance(features, dict):
        raise ConfigError(f"a model with feature columns got {features!r}: expected a dict of features")


def model_scope(name: str, partitioner: Callable[..., Any]) -> Any:
    """Open the variable scope of a part of a model, with a partitioner for its variables."""
    return tf.variable_scope(name, partitioner=partitioner, use_resource=True)
