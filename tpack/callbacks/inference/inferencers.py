"""Statistics of a pass through a validation set: means, error rates, precision and recall.

An inferencer names tensors, gets their values batch by batch, in order, and computes statistics at the end, whatever
the number of towers. Several workers take a share of the data each and merge counts and sums, not means, before: the
statistics equal those of one process.
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

_ACCUMULATING = ("before_inference", "_before_inference", "on_fetches", "_on_fetches")
_CLAIMS: PerGraph[dict[str, Inferencer]] = PerGraph(dict)
"""Which inferencer reported a statistic first."""


class Inferencer(Callback):
    """The base of accumulators over batches.

    A subclass overrides these four methods, which an inference runner calls::

        inferencer._before_inference()
        for batch in data:
            inferencer._on_fetches(values of the tensors that inferencer._get_fetches() names)
        statistics = inferencer._after_inference()         # {name: number}, goes to the monitors

    It is a callback as well: `_setup_graph`, `_before_train` and `_after_train` are called with the runner's.

    With `_state` and `_merge` overridden as well, several workers evaluate it together, each on its share of the data::

        inferencer._merge([the inferencer._state() of each worker, by rank])       # before _after_inference(), in all

    Otherwise the chief evaluates it alone. A subclass that accumulates otherwise must override `_state` and `_merge`
    too.
    """

    def get_fetches(self) -> list[str]:
        """Return the names of its tensors, with the output index."""
        return [op_and_tensor_name(name)[1] for name in self._get_fetches()]

    def get_tensors(self, tower: TowerHandle) -> list[tf.Tensor]:
        """Return a tower's tensors of `get_fetches`; the graph can still be changed."""
        return tower.get_tensors(self.get_fetches())

    def on_fetches(self, results: Sequence[np.ndarray]) -> None:
        """Receive one batch's values, in the order of `get_fetches`."""
        self._on_fetches(results)

    def before_inference(self) -> None:
        """Begin a pass over the data."""
        self._before_inference()

    def after_inference(self) -> Mapping[str, SupportsFloat]:
        """Finish the pass, report the statistics and return them.

        Raises:
            CallbackError: `_after_inference` did not return numbers by name.
        """
        statistics = self._after_inference()
        if statistics is None:
            return {}
        if not isinstance(statistics, Mapping):
            raise CallbackError(f"{self}._after_inference returned {statistics!r}: expected a dict of numbers or None")
        self.report(statistics)
        return statistics

    def report(self, statistics: Mapping[str, SupportsFloat]) -> None:
        """Report statistics, with a warning if another inferencer reports the same name."""
        claims = _CLAIMS.of(self.graph)
        for name, value in statistics.items():
            if claims.setdefault(name, self) is not self:
                log_once(
                    f"Several inferencers report '{name}', each in place of the one before: give one a prefix",
                    "warning",
                )
            self.trainer.monitors.put_scalar(name, value)

    def state(self) -> Any:
        """Return the accumulated state of this pass, for `merge` in all workers."""
        return self._state()

    def merge(self, states: Sequence[Any]) -> None:
        """Replace the accumulated state by that of all workers.

        Args:
            states: the `state` of each, by rank, with lists for tuples.
        """
        self._merge(states)

    @property
    def can_merge(self) -> bool:
        """Whether the class that merges is at least as derived as the one that accumulates."""

        def depth(name: str) -> int:  # of the class that defines a method; 0 is the most derived
            return next(place for place, kind in enumerate(type(self).__mro__) if name in vars(kind))

        merge_depth = max(map(depth, ("_state", "_merge")))
        return merge_depth <= min(map(depth, _ACCUMULATING)) and type(self)._merge is not Inferencer._merge

    def _before_inference(self) -> None:
        """Reset the state."""

    def _get_fetches(self) -> Sequence[str]:
        """Return names of tensors of the tower function."""
        raise NotImplementedError(f"{type(self).__name__} must override _get_fetches")

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        """Accumulate the values of one batch."""
        raise NotImplementedError(f"{type(self).__name__} must override _on_fetches")

    def _after_inference(self) -> Mapping[str, SupportsFloat] | None:
        """Return the statistics of the pass."""
        return None

    def _state(self) -> Any:
        """Return the accumulated state: None, numbers, text, bytes, lists, dicts and numpy arrays."""
        raise NotImplementedError(f"{type(self).__name__} must override _state to be evaluated by several workers")

    def _merge(self, states: Sequence[Any]) -> None:
        """Replace the state by the workers' states together."""
        raise NotImplementedError(f"{type(self).__name__} must override _merge to be evaluated by several workers")


@check_arguments
class BinaryClassificationStats(Inferencer):
    """Precision and recall of binary predictions, from counts over the whole set.

    Args:
        pred_tensor_name: predictions, 0 or 1 for each sample.
        label_tensor_name: labels, of the same shape.
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
    """The exact rate of wrong predictions, from counts, whatever the batch sizes.

    A label outside the model's classes would always count as wrong; it is an error if the vector comes from
    ``tf.nn.in_top_k``, or from comparing labels with ``tf.argmax``.

    Args:
        wrong_tensor_name: a vector with one entry for each sample: 1 (or true) if the prediction is wrong, else 0.
        summary_name: name of the statistic.

    Raises:
        WrongTypeError: A name is not text.
        CallbackError: While training: the tensor is not a vector of zeros and ones, or there is such a label.
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
        """Return the vector, and for each vector of labels behind it the number of labels outside the classes."""
        tensors = super().get_tensors(tower)
        for labels, scores in _labels_behind(tensors[0]):
            with tf.device(labels.device):
                classes = tf.cast(labels, tf.int64)
                is_outside = (classes < 0) | (classes >= tf.shape(scores, out_type=tf.int64)[-1])
                tensors.append(tf.reduce_sum(tf.cast(is_outside, tf.int64)))
        return tensors

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        wrong = np.asarray(results[0])
        num_outside = sum(int(count) for count in results[1:])
        if num_outside:
            raise CallbackError(
                f"ClassificationError got {num_outside} labels outside the classes among {wrong.size}: expected in "
                f"'{self._wrong_tensor_name}' predictions for all classes of the labels"
            )
        got = f"ClassificationError got '{self._wrong_tensor_name}'"
        if wrong.ndim != 1:
            raise CallbackError(f"{got} of shape {wrong.shape}: expected a vector with one entry for each sample")
        if not np.all((wrong == 0) | (wrong == 1)):
            raise CallbackError(f"{got} with other values among its {wrong.size}: expected zeros and ones")
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
    """Means of tensors over all batches.

    The batches' sums are added without rounding, so the order in which towers finish does not matter. A tensor with
    elements is averaged over its elements, exactly for batches of different sizes. A scalar counts once for each batch:
    if it is the mean of a batch, a smaller last batch weighs as much as the others.

    Args:
        names: names of tensors, or one name.
        prefix: the statistics are called ``<prefix>_<name>``; may be empty.
    """

    def __init__(self, names: str | Sequence[str], prefix: str = "validation") -> None:
        self._names = [names] if isinstance(names, str) else list(names)
        self._statistics = [self._statistic_name(name, prefix) for name in self._names]
        self._before_inference()

    @staticmethod
    def _statistic_name(name: str, prefix: str) -> str:
        op_name, tensor_name = op_and_tensor_name(name)
        # Without the output index of a first output.
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
        # The batches' sums, not totals: only all of them together are added without rounding.
        *sums, counts = zip(*states, strict=True)
        self._sums = [np.concatenate(each).tolist() for each in sums]
        self._counts = [sum(each) for each in zip(*counts, strict=True)]

    def _after_inference(self) -> dict[str, float]:

        def add(numbers: Sequence[float]) -> float:
            # Only finite numbers can be added without rounding.
            return math.fsum(numbers) if all(map(math.isfinite, numbers)) else sum(numbers)

        each = zip(self._statistics, self._sums, self._counts, strict=True)
        return {name: add(sums) / count if count else math.nan for name, sums, count in each}


def _labels_behind(wrong: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """Return the labels that a vector of wrong predictions comes from, with the classes' scores; empty if unknown.

    Changes other than of the vector's form may leave out labels on purpose.
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
    """Return the operation behind some types of operations, ignoring constants."""
    op = tensor.op
    while op.type in passed:
        variable = [each for each in op.inputs if each.op.type != "Const"]
        if op.type == "Reshape" or not variable:
            variable = list(op.inputs)
        op = variable[0].op
    return op
