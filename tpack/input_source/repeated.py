"""The first batches of another source, repeated: a model must be able to overfit them.

They are kept in the session. The global step alone selects the batch of a step, so all passes are equal.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import InputError
from tpack.input_source.base import FeedfreeInput, InputSource
from tpack.input_source.proxy import ProxyInput
from tpack.input_source.queue_input import QueueInput
from tpack.input_source.staging import StagingInput
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.utils.validation import check_arguments, check_count, check_instance


@check_arguments
class RepeatedBatches(ProxyInput, FeedfreeInput):
    """Wrapper that repeats the data of the first steps of another source.

    Args:
        input: a source without feeds, or one that is fed from a dataflow.
        num_steps: the number of steps with data of their own.
        num_towers: K, in all of which `get_input_tensors` is called.

    Raises:
        WrongTypeError: The source needs feeds, and has no dataflow.
        ConfigError: A number is not positive.
        InputError: Before training, when the data end too early.
    """

    def __init__(self, input: InputSource, num_steps: int, num_towers: int = 1) -> None:
        while isinstance(input, StagingInput):
            input = input.input
        if not isinstance(input, FeedfreeInput) and input.dataflow is not None:
            input = QueueInput(input.dataflow)
        super().__init__(check_instance(self, "input", input, FeedfreeInput, "a source that needs no feed"))
        self._num_steps = check_count(self, "num_steps", num_steps)
        self._num_towers = check_count(self, "num_towers", num_towers)
        self._num_asked = 0
        self._kept: _KeptBatches

    def steps_of_pass(self, num_towers: int) -> int:
        """Return the number of steps with data of their own."""
        return self._num_steps

    def samples(self) -> tuple[int | None, int | None]:
        """Return the inner source's samples of a batch, and the number of kept samples."""
        batch, _ = self.input.samples()
        return batch, None if batch is None else batch * self._num_steps * self._num_towers

    def data_state(self) -> dict[str, Any] | None:
        """Return None: the position of the inner source does not apply."""
        return None

    def mark_prefetched(self, num_times: int) -> None:
        """Do nothing: there is no position."""

    def _setup(self, signature: Sequence[tf.TensorSpec]) -> None:
        super()._setup(signature)
        with self.cached_name_scope(), tf.device("/device:CPU:0"):
            self._kept = _KeptBatches(self.input.get_input_tensors())

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        tower, self._num_asked = self._num_asked, self._num_asked + 1
        with self.cached_name_scope(), tf.device("/device:CPU:0"):
            step = tf.identity(get_global_step_var()) % self._num_steps
            return self._kept.get(step * self._num_towers + tower % self._num_towers)

    def _get_callbacks(self) -> Sequence[Callback]:
        return [_TakeBatches(self)]

    def _size(self) -> int:
        return self._num_steps * self._num_towers

    def take(self, session: tf.Session) -> None:
        """Take all kept batches from the inner source; raise InputError if it failed or ended."""
        try:
            self._kept.fill(session, self._size())
        except tf.errors.OpError as error:
            failures = (callback.failure() for callback in self.input.get_callbacks())
            failure = next((failure for failure in failures if failure is not None), None)
            if failure is not None:
                raise failure from error
            raise InputError(f"{self.input} did not give {self._size()} batches to repeat: {error.message}") from error

    def _reset_state(self) -> None:
        """Do nothing: the first data are kept."""


class _TakeBatches(Callback):
    """Takes the batches before training, once the inner source supplies them."""

    _chief_only = False

    def __init__(self, source: RepeatedBatches) -> None:
        self._source = source

    def _before_train(self) -> None:
        self._source.take(self.trainer.sess)


class _KeptBatches:
    """Batches by number, in the session; ``tensors`` are the next one."""

    def __init__(self, tensors: Sequence[tf.Tensor]) -> None:
        self._shapes = [tensor.shape for tensor in tensors]
        self._dtypes = [tensor.dtype for tensor in tensors]
        # The session identifies the kept data by this name alone.
        self._name = tf.get_default_graph().unique_name("kept_batches", mark_as_used=True)
        self._number = tf.placeholder(tf.int64, [], "number")
        self._put = tf.raw_ops.MapStage(
            key=self._number, indices=self._all, values=list(tensors), dtypes=self._dtypes, shared_name=self._name
        )
        self._clear = tf.raw_ops.MapClear(dtypes=self._dtypes, shared_name=self._name)

    @property
    def _all(self) -> list[int]:
        return list(range(len(self._dtypes)))

    def fill(self, session: tf.Session, count: int) -> None:
        """Replace the kept batches."""
        session.run(self._clear)
        for number in range(count):
            session.run(self._put, {self._number: number})

    def get(self, number: tf.Tensor) -> list[tf.Tensor]:
        """Return the batch of a number, which stays."""
        found = tf.raw_ops.MapPeek(key=number, indices=self._all, dtypes=self._dtypes, shared_name=self._name)
        for tensor, shape in zip(found, self._shapes, strict=True):
            tensor.set_shape(shape)
        return list(found)
