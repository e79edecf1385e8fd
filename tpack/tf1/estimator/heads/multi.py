"""Several heads on one model, with the sum of their losses; and heads as functions, for ``tf.contrib.estimator``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.spec import ExportOutput, Metrics, PredictOutput
from tpack.tf1.estimator.heads.base import DEFAULT_SIGNATURE, Head, LossSpec, MultiLossSpec
from tpack.tf1.estimator.heads.checks import check_logits
from tpack.tf1.estimator.heads.classification import BinaryClassHead, MultiClassHead, MultiLabelHead
from tpack.tf1.estimator.heads.regression import LogisticRegressionHead, PoissonRegressionHead, RegressionHead
from tpack.tf1.signatures import like
from tpack.utils.validation import check_arguments, check_instances


@check_arguments
class MultiHead(Head):
    """Several heads, each with its part of the logits, and labels by their names.

    Logits are one tensor, [B, the sum of the heads' dimensions], cut in the order of the heads, or a dict by the names
    of heads. Predictions are under pairs of a head's name and its own key.

    Args:
        heads: with different names.
        head_weights: the weight of each head's loss; None for 1 each.

    Raises:
        ConfigError: There are no heads, names are missing or repeated, or there is another number of weights.
    """

    def __init__(self, heads: Sequence[Head], head_weights: Sequence[float] | None = None) -> None:
        self._heads = tuple(check_instances(self, "heads", heads, Head, least=1))
        names = [head.name for head in self._heads]
        if None in names or len(set(names)) < len(names):
            raise ConfigError(f"a MultiHead got heads of the names {names}: expected different names")
        if head_weights is not None and len(head_weights) != len(names):
            raise ConfigError(f"a MultiHead got {len(head_weights)} weights: expected one for each of {len(names)}")
        self._weights = tuple(head_weights or (1.0,) * len(names))

    @property
    def name(self) -> str | None:
        """The names of all heads."""
        return "_".join(str(head.name) for head in self._heads)

    @property
    def logits_dimension(self) -> int:
        """The sum of the heads' dimensions."""
        return sum(head.logits_dimension for head in self._heads)

    @property
    def loss_reduction(self) -> str:
        """The common reduction of the heads; raise ConfigError if they differ."""
        reductions = {head.loss_reduction for head in self._heads}
        if len(reductions) > 1:
            raise ConfigError(f"a MultiHead got loss_reduction {', '.join(reductions)}: expected one for all")
        return reductions.pop()

    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> MultiLossSpec:
        """Return the weighted sum of the heads' losses; all else is by the names of heads.

        Raises:
            ConfigError: Labels of a head are missing.
        """
        if not isinstance(labels, Mapping) or any(head.name not in labels for head in self._heads):
            names = ", ".join(str(head.name) for head in self._heads)
            raise ConfigError(f"a MultiHead got labels {labels!r}: expected a dict by its heads, {names}")
        parts = self._parts(logits)
        found = {}
        for head in self._heads:
            with tf.name_scope(head.name):
                found[head.name] = head.create_loss(features, mode, parts[str(head.name)], labels[head.name])
        counts = {head.name: weight for head, weight in zip(self._heads, self._weights, strict=True)}
        made = MultiLossSpec(
            tf.add_n([part.training_loss * counts[name] for name, part in found.items()], name="merge_losses"),
            {name: part.unreduced_loss * counts[name] for name, part in found.items()},
            {name: part.weights * counts[name] for name, part in found.items()},
            {name: part.processed_labels for name, part in found.items()},
        )
        made.parts = found
        return made

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, tf.Tensor]:
        """Return the heads' predictions, under pairs of name and key."""
        parts = self._parts(logits)
        made: dict[Any, tf.Tensor] = {}
        for head in self._heads:
            with tf.name_scope(head.name):
                own = head.predictions(parts[str(head.name)], keys)
            made.update({(head.name, key): value for key, value in own.items()})
        return made

    def export_outputs(self, predictions: Mapping[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        """Return each head's outputs under its name; the first one's is the default."""
        made: dict[str, ExportOutput] = {}
        for head in self._heads:
            own = head.export_outputs(self._of(head, predictions))
            default = own.pop(DEFAULT_SIGNATURE)
            made.setdefault(DEFAULT_SIGNATURE, default)
            made[str(head.name)] = default
            made.update({f"{head.name}/{key}": output for key, output in own.items()})
        made["predict"] = PredictOutput({f"{name}/{key}": value for (name, key), value in predictions.items()})
        return made

    def metric_ops(
        self, found: LossSpec, predictions: Mapping[Any, tf.Tensor], regularization: tf.Tensor | None
    ) -> Metrics:
        """Return the heads' metrics, and the mean of each one's loss."""
        made: dict[str, Any] = {}
        for head in self._heads:
            own = self._parts_of(found)[head.name]
            made.update(head.metric_ops(own, self._of(head, predictions), None))
            made[f"loss/{head.name}"] = tf.metrics.mean(own.training_loss)
        if regularization is not None:
            made["regularization_loss"] = tf.metrics.mean(regularization)
        return made

    def add_summaries(self, found: LossSpec, regularization: tf.Tensor | None) -> None:
        """Add summaries of the heads' losses."""
        for head in self._heads:
            head.add_summaries(self._parts_of(found)[head.name], None)
        if regularization is not None:
            tf.summary.scalar("regularization_loss", regularization)

    def _parts(self, logits: Any) -> dict[str, Any]:
        names = [str(head.name) for head in self._heads]
        if isinstance(logits, Mapping):
            missing = [name for name in names if name not in logits]
            if missing:
                raise ConfigError(f"a MultiHead got no logits of {', '.join(missing)}: expected those of all heads")
            return dict(logits)
        cut = tf.split(check_logits(logits, self.logits_dimension), [head.logits_dimension for head in self._heads], -1)
        return dict(zip(names, cut, strict=True))

    @staticmethod
    def _parts_of(found: LossSpec) -> Mapping[Any, LossSpec]:
        if not isinstance(found, MultiLossSpec):
            raise ConfigError(f"a MultiHead got {found!r}: expected the result of its create_loss")
        return found.parts

    @staticmethod
    def _of(head: Head, predictions: Mapping[Any, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {key: value for (name, key), value in predictions.items() if name == head.name}


def _function_of(name: str, head: type[Head], **options: Any) -> Callable[..., Head]:
    """Return a function that makes a head, with the signature of its class and the options of `like`."""

    def make(**given: Any) -> Head:
        return head(**given)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Return a `{head.__name__}`, whose arguments these are."
    return check_arguments(like(head, **options)(make))


_MEAN = {"loss_reduction": tf.losses.Reduction.SUM_OVER_BATCH_SIZE}
_DIMENSION_SECOND = {**_MEAN, "without": "label_dimension", "after": {"weight_column": {"label_dimension": 1}}}

binary_classification_head = _function_of("binary_classification_head", BinaryClassHead, **_MEAN)
multi_class_head = _function_of("multi_class_head", MultiClassHead, **_MEAN)
multi_label_head = _function_of("multi_label_head", MultiLabelHead, **_MEAN)
regression_head = _function_of("regression_head", RegressionHead, **_DIMENSION_SECOND)
poisson_regression_head = _function_of("poisson_regression_head", PoissonRegressionHead, **_DIMENSION_SECOND)
logistic_regression_head = _function_of("logistic_regression_head", LogisticRegressionHead, **_MEAN)
multi_head = _function_of("multi_head", MultiHead)
