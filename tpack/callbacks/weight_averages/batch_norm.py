"""Statistics of batch normalisation for other weights than those that were trained.

A layer that normalises by the batch moves averages of the batch's mean and variance, by operations of the training
tower. These operations tell all: which variables the averages are, and what they are moved towards. Here the batch of a
tower is fed in the place of its input, so that nothing is taken from the training's data, and the operands of the
moves are fetched and not the moves run, so that plain means can be taken.
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
from tpack.callbacks.hyper_param import copies_in_towers
from tpack.dataflow.base import DataFlow, flows_in, length_or_none
from tpack.errors import CallbackError, ConfigError, WrongTypeError
from tpack.graph_copy import op_kinds
from tpack.input_source.data_adapter import GivenData
from tpack.input_source.spec_check import DataPointChecker
from tpack.input_source.stream import DataPointStream, describe
from tpack.tfutils.dependency import ancestors
from tpack.tfutils.variable_values import assign_values
from tpack.tower.tower_func import TowerFunc
from tpack.types import BuiltTower, Trainer
from tpack.utils.validation import check_count, owner_name

_NAMES = ("mean/EMA", "variance/EMA", "moving_mean", "moving_variance")
# TensorFlow puts a number behind a name that it has already.
_IS_STATISTIC = re.compile(rf"(.*/)?({'|'.join(_NAMES)})(_\d+)?")


class _Move(NamedTuple):
    """How a training step moves a statistic.

    Attributes:
        place: the place of the statistic among all.
        is_new: whether the operand is the new value, and not the change.
        operand: what is assigned, added or subtracted.
        slope: by how much the operand grows with the statistic; it does not depend on the batch.
    """

    place: int
    is_new: bool
    operand: tf.Tensor
    slope: tf.Tensor

    def target(self, value: np.ndarray, operand: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return what the statistic is moved towards, from its value and those of the two tensors."""
        change = operand - value if self.is_new else -operand.astype(np.float64)
        rate = 1 - _as_written(slope) if self.is_new else slope.astype(np.float64)
        # A rate of 0 moves nothing, whatever the batch.
        return value + np.divide(change, rate, out=np.zeros_like(change), where=rate != 0)


class BatchNormStatistics:
    """The statistics of batch normalisation in the main training tower, estimated anew for the weights of the moment.

    Args:
        owner: whose arguments these are.
        flow: batches as a training tower takes them.
        num_steps: how many batches are used, for each tower that takes part.
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
        # What the statistics are for the weights, while they are those of other weights.
        self._own: list[np.ndarray] | None = None
        # The variables of other towers that take part, each with that of the main tower.
        self._copies: list[tuple[tf.Variable, tf.Variable]] = []
        # What was estimated last, and for which weights.
        self._estimated: tuple[int, list[np.ndarray]] | None = None

    def setup(self, trainer: Trainer) -> None:
        """Find the statistics; the graph must not be finalized.

        Raises:
            CallbackError: There are none that a training tower moves, or they cannot be estimated.
        """
        self._trainer = trainer
        towers = training_towers(trainer)
        tower_func: TowerFunc | None = getattr(trainer, "tower_func", None)
        if not towers or tower_func is None:
            raise CallbackError(f"{self._owner} got batch_norm_data, and the trainer has no tower that trains")
        self._check_flow()
        moved = _moves_of_statistics(towers)
        if not moved:
            raise CallbackError(
                f"{self._owner} got batch_norm_data, and training moves no statistics of batch normalisation, which "
                f"are variables called {', '.join(_NAMES)}"
            )
        self._variables = [variable for variable, _ in moved]
        self._moves = [self._move(place, op) for place, (_, ops) in enumerate(moved) for op in ops]
        needed = ancestors([move.operand for move in self._moves])
        self._towers = [tower for tower in towers if any(tensor.op in needed for tensor in tower.inputs)]
        self._copies = copies_in_towers(trainer) if len(self._towers) > 1 else []
        checker = DataPointChecker(tower_func.input_signature, describe(self._flow))
        self._stream = DataPointStream(self._flow, checker)

    def _check_flow(self) -> None:
        """Refuse to take from the training's data, or to move its random numbers on."""
        of_training = getattr(self._trainer.input_source, "dataflow", None)
        if of_training is not None and {*map(id, flows_in(of_training))} & {*map(id, flows_in(self._flow))}:
            raise CallbackError(
                f"{self._owner} got batch_norm_data of which training reads a part itself: give it dataflows of its own"
            )

    def _move(self, place: int, op: tf.Operation) -> _Move:
        variable, operand = self._variables[place], op.inputs[1]
        if hasattr(variable, "components"):
            raise CallbackError(
                f"{self._owner} cannot estimate {variable.op.name}, of which each device of a strategy has its own one"
            )
        (slope,) = tf.gradients(operand, [variable.handle])
        is_new = op.type == "AssignVariableOp"
        if slope is None and not is_new:
            raise CallbackError(f"{self._owner} cannot estimate {variable.op.name}: {op.name} moves it towards nothing")
        return _Move(place, is_new, operand, tf.zeros_like(operand) if slope is None else slope)

    def use_those_of(self, number: int) -> None:
        """Give the statistics the values that fit the weights of the moment, until `put_back`.

        Args:
            number: which weights these are: statistics are estimated once for each number.
        """
        self._own = self._trainer.sess.run(self._variables)
        if self._estimated is None or self._estimated[0] != number:
            with self._main_weights_in_all_towers():
                self._estimated = number, self._estimate(self._own)
        self._assign(self._estimated[1])

    @contextmanager
    def _main_weights_in_all_towers(self) -> Iterator[None]:
        """Give the towers that take part the main tower's weights for a block, where they have weights of their own."""
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
        """Give the statistics the values that they had before."""
        if self._own is not None:
            self._assign(self._own)
            self._own = None

    def close(self) -> None:
        """End what the data have started."""
        if hasattr(self, "_stream"):
            self._stream.close()

    def _estimate(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the mean of what each statistic is moved towards, over all batches."""
        tensors = [(move.operand, move.slope) for move in self._moves]
        counts = np.bincount([move.place for move in self._moves])
        sums = [np.zeros(value.shape) for value in values]
        for step, feeds in enumerate(self._feeds(), 1):
            for move, found in zip(self._moves, self._trainer.sess.run(tensors, feeds), strict=True):
                sums[move.place] += move.target(values[move.place], *found) / counts[move.place]
            values = [(total / step).astype(value.dtype) for total, value in zip(sums, values, strict=True)]
            # A layer that corrects by its statistics, as batch renormalisation does, has the newest ones in each run.
            self._assign(values)
        return list(values)

    def _feeds(self) -> Iterator[dict[tf.Tensor, np.ndarray]]:
        """Yield batches for the inputs of the towers, for one run after the other."""
        points = iter(self._stream)
        try:
            for _ in range(self._num_runs()):
                taken = list(islice(points, len(self._towers)))
                yield {
                    tensor: array.astype(tensor.dtype.as_numpy_dtype, copy=False)
                    for tower, point in zip(self._towers, taken, strict=True)
                    for tensor, array in zip(tower.inputs, point, strict=True)
                }
        finally:
            points.close()

    def _num_runs(self) -> int:
        return self._num_steps or max(1, len(self._flow) // len(self._towers))

    def _assign(self, values: Sequence[np.ndarray]) -> None:
        assign_values(self._trainer.sess, list(zip(self._variables, values, strict=True)))


def batch_norm_statistics(
    owner: object, data: Any, num_steps: int | None, *, batch_size: int | None
) -> BatchNormStatistics | None:
    """Return what estimates statistics from the data that a callback was given; None if it was given none.

    Args:
        owner: the callback.
        data: a `DataFlow`, or what else `GivenData` takes.
        num_steps: how many batches are used for each tower; None for one pass.
        batch_size: how many examples are a batch, where the data are examples.

    Raises:
        WrongTypeError: The data are something else.
        ConfigError: They are a ``tf.data.Dataset``, or do not say how many they are; or there are none.
    """
    if num_steps is not None:
        check_count(owner, "batch_norm_steps", num_steps)
    if batch_size is not None:
        check_count(owner, "batch_size", batch_size)
    if data is None:
        if num_steps is not None or batch_size is not None:
            raise ConfigError(f"{owner_name(owner)} got batch_norm_steps or batch_size, and no batch_norm_data")
        return None
    try:
        flow = GivenData(data, batch_size).flow
    except WrongTypeError as error:
        raise WrongTypeError(f"{owner_name(owner)} cannot take its batch_norm_data: {error}") from error
    if flow is None:
        raise ConfigError(f"{owner_name(owner)} cannot feed a tf.data.Dataset: give batch_norm_data as a DataFlow")
    if num_steps is None and length_or_none(flow) is None:
        raise ConfigError(f"{owner_name(owner)} got batch_norm_data that do not say how many: give batch_norm_steps")
    return BatchNormStatistics(owner, flow, num_steps)


def _moves_of_statistics(towers: Sequence[BuiltTower]) -> list[tuple[tf.Variable, list[tf.Operation]]]:
    """Return the statistics of the main tower, each with the operations by which a step moves it."""
    inputs = {tensor.op for tower in towers for tensor in tower.inputs}
    found = []
    for variable in tf.global_variables():
        if not variable.trainable and hasattr(variable, "handle") and _IS_STATISTIC.fullmatch(variable.op.name):
            users = variable.handle.consumers()
            moves = [op for op in users if op.type in op_kinds.ASSIGNMENTS and _is_computed_from(op.inputs[1], inputs)]
            found += [(variable, moves)] if moves else []
    return found


def _is_computed_from(tensor: tf.Tensor, inputs: set[tf.Operation]) -> bool:
    """Tell whether a tensor depends on one of the inputs, which is found soon where it does."""
    waiting, seen = [tensor.op], {tensor.op}
    while waiting:
        op = waiting.pop()
        if op in inputs:
            return True
        coming = [source.op for source in op.inputs if source.op not in seen]
        seen.update(coming)
        waiting += coming
    return False


def _as_written(numbers: np.ndarray) -> np.ndarray:
    """Return numbers as a script has them: 0.99 for the number of 32 bits that is nearest to it.

    So 1 minus it has no error of rounding, which dividing by it would make a hundred times as large.
    """
    different, places = np.unique(numbers, return_inverse=True)
    return np.array([float(str(number)) for number in different])[places].reshape(numbers.shape)
