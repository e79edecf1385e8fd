"""Batch normalization statistics for other weights than the trained ones.

A layer that normalizes by the batch moves averages of its mean and variance by operations of the training tower, which
identify the averages and their targets. Batches are fed in place of the towers' inputs, so that no training data are
used, and the operands of the moves are fetched instead of run, so that plain means can be taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import training_towers
from tpack.callbacks.run_op import copies_in_towers
from tpack.dataflow.base import DataFlow, flows_in, length_or_none
from tpack.errors import CallbackError, ConfigError, WrongTypeError
from tpack.graph_copy import op_kinds
from tpack.input_source.data_adapter import GivenData
from tpack.input_source.spec_check import DataPointChecker
from tpack.input_source.stream import DataPointStream, describe
from tpack.reduction.cross_replica import results_across_workers
from tpack.tfutils.dependency import ancestors
from tpack.tfutils.variable_values import assign_values
from tpack.tower.tower_func import TowerFunc
from tpack.types import BuiltTower, Trainer
from tpack.utils.validation import check_count, owner_name

_NAMES = ("mean/EMA", "variance/EMA", "moving_mean", "moving_variance")
# TensorFlow appends a number to a name that is taken.
_IS_STATISTIC = re.compile(rf"(.*/)?({'|'.join(_NAMES)})(_\d+)?")


class _Move(NamedTuple):
    """A training step's move of a statistic."""

    place: int  # the index of the statistic
    is_new: bool  # the operand is the new value, not the change
    operand: tf.Tensor  # the assigned, added or subtracted tensor
    slope: tf.Tensor  # the operand's derivative by the statistic, which is independent of the batch

    def target(self, value: np.ndarray, operand: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return the target of the move, from the statistic's value and those of the two tensors."""
        change: np.ndarray = operand - value if self.is_new else -operand.astype(np.float64)
        rate: np.ndarray = slope.astype(np.float64)
        if self.is_new:
            # As written in a script: 0.99 for the nearest 32-bit number. The division would enlarge its rounding error
            # a hundredfold.
            different, places = np.unique(slope, return_inverse=True)
            rate = 1 - np.array([float(str(number)) for number in different])[places].reshape(slope.shape)
        # A rate of 0 moves nothing, whatever the batch.
        return value + np.divide(change, rate, out=np.zeros_like(change), where=rate != 0)


class BatchNormStatistics:
    """The main training tower's batch normalization statistics, estimated for the present weights.

    Args:
        owner: the owner of these arguments.
        flow: batches for a training tower.
        num_steps: the number of batches for each participating tower.
    """

    def __init__(self, owner: object, flow: DataFlow, num_steps: int | None) -> None:
        self._owner = owner_name(owner)
        self._flow = flow
        self._num_steps = num_steps
        self._trainer: Trainer
        self._variables: list[tf.Variable] = []
        self._moves: list[_Move] = []
        self._towers: list[BuiltTower] = []
        self._stream: DataPointStream
        # The statistics of the weights, while others are in their place.
        self._own: list[np.ndarray] | None = None
        # Pairs of a main tower's variable and its copy in another tower.
        self._copies: list[tuple[tf.Variable, tf.Variable]] = []
        # The last estimate, and the number of its weights.
        self._estimated: tuple[int, list[np.ndarray]] | None = None

    def setup(self, trainer: Trainer) -> None:
        """Find the statistics; the graph must not be finalized.

        Raises:
            CallbackError: A training tower moves none, or they cannot be estimated.
        """
        self._trainer = trainer
        towers = training_towers(trainer)
        tower_func: TowerFunc | None = getattr(trainer, "tower_func", None)
        if not towers or tower_func is None:
            raise CallbackError(f"{self._owner} got batch_norm_data: expected a trainer with a training tower")
        # Reading the training's own data would take points, or move its random numbers on.
        of_training = getattr(trainer.input_source, "dataflow", None)
        if of_training is not None and {*map(id, flows_in(of_training))} & {*map(id, flows_in(self._flow))}:
            raise CallbackError(f"{self._owner} got batch_norm_data that training reads too: expected others")
        moved = _moves_of_statistics(towers)
        if not moved:
            raise CallbackError(
                f"{self._owner} got batch_norm_data, and training updates no statistics: expected variables called "
                f"{', '.join(_NAMES)}"
            )
        self._variables = [variable for variable, _ in moved]
        self._moves = [self._move(place, op) for place, (_, ops) in enumerate(moved) for op in ops]
        needed = ancestors([move.operand for move in self._moves])
        if not needed.isdisjoint(results_across_workers()):
            raise CallbackError(
                f"{self._owner} got batch_norm_data: expected layers without sync_statistics='workers', since this "
                "worker evaluates them alone"
            )
        self._towers = [tower for tower in towers if any(tensor.op in needed for tensor in tower.inputs)]
        self._copies = copies_in_towers(trainer) if len(self._towers) > 1 else []
        checker = DataPointChecker(tower_func.input_signature, describe(self._flow))
        self._stream = DataPointStream(self._flow, checker)

    def _move(self, place: int, op: tf.Operation) -> _Move:
        variable, operand = self._variables[place], op.inputs[1]
        if hasattr(variable, "components"):
            raise CallbackError(f"{self._owner} cannot estimate {variable.op.name}: each device of a strategy has one")
        (slope,) = tf.gradients(operand, [variable.handle])
        is_new = op.type == "AssignVariableOp"
        if slope is None and not is_new:
            raise CallbackError(f"{self._owner} cannot estimate {variable.op.name}: {op.name} has no target for it")
        return _Move(place, is_new, operand, tf.zeros_like(operand) if slope is None else slope)

    def use_those_of(self, number: int) -> None:
        """Set the statistics to estimates for the present weights, until `put_back`.

        Args:
            number: the number of these weights; each is estimated once.
        """
        self._own = self._trainer.sess.run(self._variables)
        if self._estimated is None or self._estimated[0] != number:
            with self._main_weights_in_all_towers():
                self._estimated = number, self._estimate(self._own)
        self._assign(self._estimated[1])

    @contextmanager
    def _main_weights_in_all_towers(self) -> Iterator[None]:
        """Copy the main tower's weights to the participating towers for a block."""
        if not self._copies:
            yield
            return
        main, copies = zip(*self._copies, strict=True)
        values, before = self._trainer.sess.run([main, copies])
        try:
            assign_values(self._trainer.sess, list(zip(copies, values, strict=True)))
            yield
        finally:
            assign_values(self._trainer.sess, list(zip(copies, before, strict=True)))

    def put_back(self) -> None:
        """Restore the former statistics."""
        if self._own is not None:
            self._assign(self._own)
            self._own = None

    def close(self) -> None:
        """Close the data."""
        if hasattr(self, "_stream"):
            self._stream.close()

    def _estimate(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the mean of each statistic's targets over all batches."""
        tensors = [(move.operand, move.slope) for move in self._moves]
        counts = np.bincount([move.place for move in self._moves])
        sums = [np.zeros(value.shape) for value in values]
        for step, feeds in enumerate(self._feeds(), 1):
            for move, found in zip(self._moves, self._trainer.sess.run(tensors, feeds), strict=True):
                sums[move.place] += move.target(values[move.place], *found) / counts[move.place]
            values = [(total / step).astype(value.dtype) for total, value in zip(sums, values, strict=True)]
            # Batch renormalization corrects by its statistics, and needs the newest in each run.
            self._assign(values)
        return list(values)

    def _feeds(self) -> Iterator[dict[tf.Tensor, np.ndarray]]:
        """Yield each run's batches for the inputs of the towers."""
        points = iter(self._stream)
        try:
            for _ in range(self._num_steps or max(1, len(self._flow) // len(self._towers))):
                taken = list(islice(points, len(self._towers)))
                yield {
                    tensor: array.astype(tensor.dtype.as_numpy_dtype, copy=False)
                    for tower, point in zip(self._towers, taken, strict=True)
                    for tensor, array in zip(tower.inputs, point, strict=True)
                }
        finally:
            points.close()

    def _assign(self, values: Sequence[np.ndarray]) -> None:
        assign_values(self._trainer.sess, list(zip(self._variables, values, strict=True)))


def batch_norm_statistics(
    owner: object, data: Any, num_steps: int | None, *, batch_size: int | None
) -> BatchNormStatistics | None:
    """Return the estimator for the data of a callback; None without data.

    Args:
        owner: the callback.
        data: a `DataFlow`, or other data of `GivenData`.
        num_steps: the number of batches for each tower; None for one pass.
        batch_size: the examples in a batch, if the data are examples.

    Raises:
        WrongTypeError: The data have the wrong type.
        ConfigError: They are a ``tf.data.Dataset``, or of unknown size; or arguments come without data.
    """
    if num_steps is not None:
        check_count(owner, "batch_norm_steps", num_steps)
    if batch_size is not None:
        check_count(owner, "batch_size", batch_size)
    if data is None:
        if num_steps is not None or batch_size is not None:
            raise ConfigError(f"{owner_name(owner)} got batch_norm_steps or batch_size: expected batch_norm_data, too")
        return None
    try:
        flow = GivenData(data, batch_size).flow
    except WrongTypeError as error:
        raise WrongTypeError(f"{owner_name(owner)} cannot take its batch_norm_data: {error}") from error
    if flow is None:
        raise ConfigError(f"{owner_name(owner)} got a tf.data.Dataset as batch_norm_data: expected a DataFlow")
    if num_steps is None and length_or_none(flow) is None:
        raise ConfigError(f"{owner_name(owner)} got batch_norm_data of unknown size: expected batch_norm_steps, too")
    return BatchNormStatistics(owner, flow, num_steps)


def _moves_of_statistics(towers: Sequence[BuiltTower]) -> list[tuple[tf.Variable, list[tf.Operation]]]:
    """Return the main tower's statistics, each with its moves in a step."""
    inputs = {tensor.op for tower in towers for tensor in tower.inputs}
    found = []
    for variable in tf.global_variables():
        if not variable.trainable and hasattr(variable, "handle") and _IS_STATISTIC.fullmatch(variable.op.name):
            users = variable.handle.consumers()
            moves = [op for op in users if op.type in op_kinds.ASSIGNMENTS and _is_computed_from(op.inputs[1], inputs)]
            found += [(variable, moves)] if moves else []
    return found


def _is_computed_from(tensor: tf.Tensor, inputs: set[tf.Operation]) -> bool:
    waiting, seen = [tensor.op], {tensor.op}
    while waiting:
        op = waiting.pop()
        if op in inputs:
            return True
        coming = [source.op for source in op.inputs if source.op not in seen]
        seen.update(coming)
        waiting += coming
    return False
