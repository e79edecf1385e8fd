"""What is computed over a pass through a validation set: means, error rates, precision and recall.

An inferencer says which tensors it wants of each batch, is given their values batch by batch, and makes statistics of
them in the end. It does not know how many towers there are: it is called once for each batch, in the order of the
data, so that the same data give the same statistics on one device and on eight.

Where several workers train, each takes in a share of the data, and what they have accumulated is merged before the
statistics are made: counts and sums, not means, so that these are those of one process over all data.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import CallbackError
from tpack.graph_copy import op_kinds
from tpack.tower.names import op_and_tensor_name
from tpack.tower.per_graph import PerGraph
from tpack.tower.tower_func import TowerHandle
from tpack.utils.logger import log_once
from tpack.utils.stats import BinaryStatistics, RatioCounter
from tpack.utils.validation import check_arguments

_CLAIMS: PerGraph[dict[str, Inferencer]] = PerGraph(dict)
"""Which inferencer reported a statistic first."""


class Inferencer(Callback):
    """Accumulate over batches.

    A subclass overrides these four methods, which an inference runner calls::

        inferencer._before_inference()
        for batch in data:
            inferencer._on_fetches(values of the tensors that inferencer._get_fetches() names)
        statistics = inferencer._after_inference()         # {name: number}, goes to the monitors

    It is a callback as well: its `_setup_graph`, `_before_train` and `_after_train` are called with those of the
    runner.

    One that also overrides `_state` and `_merge` is evaluated by several workers together, each on its share of the
    data::

        inferencer._merge([the inferencer._state() of each worker, by rank])       # before _after_inference(), in all

    One that does not is evaluated by the chief over all data. So is a subclass of one that does if it takes in batches
    in another way: it overrides `_state` and `_merge` too, if only to call those of the base.
    """

    def get_fetches(self) -> list[str]:
        """Return the names of the tensors it wants, with the output index."""
        return [op_and_tensor_name(name)[1] for name in self._get_fetches()]

    def get_tensors(self, tower: TowerHandle) -> list[tf.Tensor]:
        """Return what is fetched of a tower: the tensors of `get_fetches`; while the graph can be added to."""
        return tower.get_tensors(self.get_fetches())

    def on_fetches(self, results: Sequence[np.ndarray]) -> None:
        """Receive the values for one batch, in the order of `get_fetches`."""
        self._on_fetches(results)

    def before_inference(self) -> None:
        """Begin a pass over the data."""
        self._before_inference()

    def after_inference(self) -> Mapping[str, SupportsFloat]:
        """Finish the pass and give the statistics to the monitors; return them.

        Raises:
            CallbackError: `_after_inference` returned something else than numbers by name.
        """
        statistics = self._after_inference()
        if statistics is None:
            return {}
        if not isinstance(statistics, Mapping):
            raise CallbackError(f"{self}._after_inference returns a dict of numbers or None, got {statistics!r}")
        self.report(statistics)
        return statistics

    def report(self, statistics: Mapping[str, SupportsFloat]) -> None:
        """Give statistics to the monitors."""
        for name, value in statistics.items():
            self._claim(name)
            self.trainer.monitors.put_scalar(name, value)

    def state(self) -> Any:
        """Return what was accumulated in this pass, for `merge` in all workers."""
        return self._state()

    def merge(self, states: Sequence[Any]) -> None:
        """Accumulate what the workers did, in place of what this one did.

        Args:
            states: the `state` of each, by rank; what was a tuple is a list.
        """
        self._merge(states)

    @property
    def can_merge(self) -> bool:
        """Whether it merges all that it takes in: nothing is taken in by a class that those who merge do not know."""
        merged_by = max(_place_of(self, name) for name in ("_state", "_merge"))
        taken_in_by = min(_place_of(self, name) for name in _TAKING_IN)
        return merged_by <= taken_in_by and type(self)._merge is not Inferencer._merge

    def _claim(self, name: str) -> None:
        """Warn of a statistic that two inferencers report: of such values one covers the other."""
        claims = _CLAIMS.of(self.graph)
        if claims.setdefault(name, self) is not self:
            log_once(
                f"Several inferencers report '{name}', each in place of the one before: give one a prefix", "warning"
            )

    def _before_inference(self) -> None:
        """Forget the last pass."""

    def _get_fetches(self) -> Sequence[str]:
        """Return the names of tensors, as the tower function knows them."""
        raise NotImplementedError(f"{type(self).__name__} must override _get_fetches")

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        """Take in the values of one batch."""
        raise NotImplementedError(f"{type(self).__name__} must override _on_fetches")

    def _after_inference(self) -> Mapping[str, SupportsFloat] | None:
        """Return the statistics of the pass."""
        return None

    def _state(self) -> Any:
        """Return what was accumulated: made of None, numbers, text, bytes, lists, dicts and numpy arrays."""
        raise NotImplementedError(f"{type(self).__name__} must override _state to be evaluated by several workers")

    def _merge(self, states: Sequence[Any]) -> None:
        """Accumulate what `_state` returned in each worker, in place of what is there."""
        raise NotImplementedError(f"{type(self).__name__} must override _merge to be evaluated by several workers")


@check_arguments
class BinaryClassificationStats(Inferencer):
    """Compute precision and recall of binary predictions, from counts over the whole set.

    Args:
        pred_tensor_name: predictions, 0 or 1 for each sample.
        label_tensor_name: what they should be, of the same shape.
        prefix: the statistics are called ``<prefix>_precision`` and ``<prefix>_recall``.
    """

    def __init__(self, pred_tensor_name: str, label_tensor_name: str, prefix: str = "val") -> None:
        self._names = [pred_tensor_name, label_tensor_name]
        self._prefix = prefix
        self._before_inference()

    def _before_inference(self) -> None:
        self._counts = BinaryStatistics()

    def _get_fetches(self) -> Sequence[str]:
        return self._names

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        predictions, labels = results
        self._counts.feed(predictions, labels)

    def _state(self) -> dict[str, int]:
        return dict(vars(self._counts))

    def _merge(self, states: Sequence[dict[str, int]]) -> None:
        for name in vars(self._counts):
            setattr(self._counts, name, sum(counts[name] for counts in states))

    def _after_inference(self) -> dict[str, float]:
        return {f"{self._prefix}_precision": self._counts.precision, f"{self._prefix}_recall": self._counts.recall}


@check_arguments
class ClassificationError(Inferencer):
    """Count how many predictions were wrong, of how many.

    The rate is exact: wrong ones and all are counted, so that batches of different sizes weigh as they should.

    A label that the model has no class for counts as wrong whatever is predicted, so it is an error where it can be
    seen: where the vector comes of ``tf.nn.in_top_k``, or of comparing labels with ``tf.argmax``.

    Args:
        wrong_tensor_name: a vector with one entry for each sample: 1 (or true) where the prediction is wrong, else 0.
        summary_name: name of the statistic.

    Raises:
        WrongTypeError: A name is no text.
        CallbackError: While training: the tensor is no vector of zeros and ones, or there is such a label.
    """

    def __init__(self, wrong_tensor_name: str = "incorrect_vector", summary_name: str = "validation_error") -> None:
        self._wrong_tensor_name = wrong_tensor_name
        self._summary_name = summary_name
        self._before_inference()

    def _before_inference(self) -> None:
        self._rate = RatioCounter()

    def _get_fetches(self) -> Sequence[str]:
        return [self._wrong_tensor_name]

    def get_tensors(self, tower: TowerHandle) -> list[tf.Tensor]:
        """Return the vector, and of each vector of labels that it comes of how many of them are no class."""
        (wrong,) = super().get_tensors(tower)
        return [wrong, *(_num_outside(labels, scores) for labels, scores in _labels_behind(wrong))]

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        wrong = np.asarray(results[0])
        num_outside = sum(int(count) for count in results[1:])
        if num_outside:
            raise CallbackError(
                f"{num_outside} of the {wrong.size} labels of a batch are no class: '{self._wrong_tensor_name}' "
                "compares them with predictions of another number of classes"
            )
        if wrong.ndim != 1:
            raise CallbackError(
                f"ClassificationError wants '{self._wrong_tensor_name}' to be a vector with one entry for each sample, "
                f"got shape {wrong.shape}"
            )
        if not np.all((wrong == 0) | (wrong == 1)):
            raise CallbackError(
                f"ClassificationError wants zeros and ones in '{self._wrong_tensor_name}', got other values among its "
                f"{wrong.size}"
            )
        self._rate.feed(float(np.sum(wrong, dtype=np.float64)), wrong.size)

    def _state(self) -> list[float]:
        return [self._rate.count, self._rate.total]

    def _merge(self, states: Sequence[Sequence[float]]) -> None:
        self._rate = RatioCounter()
        for count, total in states:
            self._rate.feed(count, total)

    def _after_inference(self) -> dict[str, float]:
        return {self._summary_name: self._rate.ratio}


@check_arguments
class ScalarStats(Inferencer):
    """Average tensors over all batches.

    The batches' sums are added without rounding, so that the result does not depend on the order in which towers
    finish. A tensor with elements is averaged over its elements, which is exact for batches of different sizes. A
    scalar counts once for each batch: when it is itself the mean of a batch, a smaller last batch weighs as much as the
    others.

    Args:
        names: names of tensors, or one name.
        prefix: the statistics are called ``<prefix>_<name>``; an empty one is left out.
    """

    def __init__(self, names: str | Sequence[str], prefix: str = "validation") -> None:
        self._names = [names] if isinstance(names, str) else list(names)
        self._statistics = [self._statistic_name(name, prefix) for name in self._names]
        self._before_inference()

    @staticmethod
    def _statistic_name(name: str, prefix: str) -> str:
        op_name, tensor_name = op_and_tensor_name(name)
        # The output index matters only where it is not the first.
        short = op_name if tensor_name == f"{op_name}:0" else tensor_name
        return f"{prefix}_{short}" if prefix else short

    def _before_inference(self) -> None:
        self._sums: list[list[float]] = [[] for _ in self._names]
        self._counts = [0] * len(self._names)

    def _get_fetches(self) -> Sequence[str]:
        return self._names

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        for position, value in enumerate(results):
            self._sums[position].append(float(np.sum(value, dtype=np.float64)))
            self._counts[position] += int(np.size(value))

    def _state(self) -> list[Any]:
        return [np.array(sums, np.float64) for sums in self._sums] + [self._counts]

    def _merge(self, states: Sequence[Sequence[Any]]) -> None:
        # The batches' sums and not their totals: only all of them together are added without rounding.
        *sums, counts = zip(*states, strict=True)
        self._sums = [np.concatenate(each).tolist() for each in sums]
        self._counts = [sum(each) for each in zip(*counts, strict=True)]

    def _after_inference(self) -> dict[str, float]:
        means = [
            _add(sums) / count if count else math.nan for sums, count in zip(self._sums, self._counts, strict=True)
        ]
        return dict(zip(self._statistics, means, strict=True))


_TAKING_IN = ("before_inference", "_before_inference", "on_fetches", "_on_fetches")


def _place_of(inferencer: Inferencer, name: str) -> int:
    """Return which of the classes of an inferencer defines a method, the most derived being the first."""
    return next(place for place, kind in enumerate(type(inferencer).__mro__) if name in vars(kind))


def _add(numbers: Sequence[float]) -> float:
    # Only finite numbers can be added without rounding.
    return math.fsum(numbers) if all(map(math.isfinite, numbers)) else sum(numbers)


def _labels_behind(wrong: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """Return the labels that a vector of wrong predictions comes of, with the scores of the classes; none if unknown.

    Where anything but the form of the vector was changed since, some labels may have been left out on purpose.
    """
    op = _origin(wrong, op_kinds.SAME_SAMPLES)
    if op.type in op_kinds.TOP_K:
        return [(op.inputs[1], op.inputs[0])]
    sides = list(op.inputs) if op.type in op_kinds.COMPARISONS else []
    for predicted, labels in (sides, sides[::-1]) if sides else ():
        maximum = _origin(predicted, op_kinds.SAME_VALUES)
        if maximum.type == "ArgMax" and labels.dtype.is_integer:
            return [(labels, maximum.inputs[0])]
    return []


def _origin(tensor: tf.Tensor, passed: Collection[str]) -> tf.Operation:
    """Return the operation that a tensor comes of, past those of some types, constants aside."""
    op = tensor.op
    while op.type in passed:
        variable = [each for each in op.inputs if each.op.type != "Const"]
        if op.type == "Reshape" or not variable:
            variable = list(op.inputs)
        op = variable[0].op
    return op


def _num_outside(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Return how many of the labels are no number of a class."""
    with tf.device(labels.device):
        numbers = tf.cast(labels, tf.int64)
        is_outside = (numbers < 0) | (numbers >= tf.shape(scores, out_type=tf.int64)[-1])
        return tf.reduce_sum(tf.cast(is_outside, tf.int64))
