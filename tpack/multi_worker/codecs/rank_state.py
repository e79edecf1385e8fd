"""State of an exchange that belongs to one worker, such as the errors that its encodings left behind.

The variables are local ones: a checkpoint, which is that of one machine, does not have them, and no worker gets those
of another. `rank_variables_here` lists them for whoever saves them by rank.

Updates are collected while the exchange is built and run at its end, behind one condition: that all results are
finite. A step that an overflow makes void leaves the state as it was, in all workers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.sums import on_device
from tpack.tfutils.predicated import Gate
from tpack.tower.context import current_frame, entered
from tpack.tower.per_graph import PerGraph
from tpack.utils.lazy import LazyModule

_graph_lookup = LazyModule("tpack.tfutils.graph_lookup")

_made: PerGraph[list[tf.Variable]] = PerGraph(list)


def rank_variables_here() -> list[tf.Variable]:
    """Return the variables of the current graph that belong to this worker alone, in the order of creation."""
    return list(_made.here())


@dataclass(frozen=True)
class RankState:
    """Variables that an exchange keeps from step to step, for one worker.

    Attributes:
        device: the worker's CPU.
        seed: a number that differs between workers and between the parts of an exchange; the same in each run.
        common_seed: one that is the same in all workers, and differs between the parts of an exchange.
        num_summands: the number of workers whose values sum up to a result: of all for a sum, 1 for a mean.
    """

    device: str
    seed: int
    common_seed: int
    num_summands: int = 1
    _updates: list[tuple[tf.Variable, tf.Tensor]] = field(default_factory=list, repr=False)

    @property
    def step(self) -> tf.Tensor:
        """The number of previous steps of the training, an int64 scalar."""
        with on_device(self.device):
            return tf.identity(_graph_lookup.get_global_step_var())

    def named(self, name: str, rank: int) -> "RankState":
        """Return the state of one bucket of a worker, with seeds of its own and the same updates."""
        return replace(self, seed=crc32(f"{name} of {rank}".encode()), common_seed=crc32(name.encode()))

    def of_part(self, number: int) -> "RankState":
        """Return the state of one part of several, with other seeds and the same updates."""
        return replace(self, seed=_mixed(self.seed, number), common_seed=_mixed(self.common_seed, number))

    def variable(
        self,
        name: str,
        shape: Sequence[int] | tf.TensorShape,
        dtype: tf.DType = tf.float32,
        initializer: Callable[..., tf.Tensor] | None = None,
    ) -> tf.Variable:
        """Create a variable of this worker, under the current name scope; change it by `update` alone.

        Args:
            name: its name.
            shape: its shape.
            dtype: its dtype.
            initializer: called with the shape and ``dtype=``, returns the first value; None for zeros.

        Creates:
            A local variable.

        Raises:
            ReductionError: The shape is not fully defined.
        """
        defined = tf.TensorShape(shape)
        if not defined.is_fully_defined():
            raise ReductionError(f"variable {name!r} got shape={defined}: expected a fully defined shape")
        make = initializer or tf.zeros_initializer()
        # Inside a device's update, a strategy leaves the variable alone instead of creating one per device.
        with on_device(self.device), entered(replace(current_frame(), update_device=self.device)):
            variable = tf.Variable(
                lambda: make(defined.as_list(), dtype=dtype.base_dtype),
                trainable=False,
                name=name,
                use_resource=True,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
            )
        _made.here().append(variable)
        return variable

    def update(self, variable: tf.Variable, value: tf.Tensor) -> None:
        """Set a variable at the end of the step, unless the step is void."""
        self._updates.append((variable, value))

    @property
    def num_updates(self) -> int:
        """The number of updates so far, of all parts of the exchange."""
        return len(self._updates)

    def take_updates(self, since: int = 0) -> list[tuple[tf.Variable, tf.Tensor]]:
        """Return the updates from a number on, and forget them."""
        taken = self._updates[since:]
        del self._updates[since:]
        return taken


def _mixed(seed: int, number: int) -> int:
    return crc32(f"{seed} {number}".encode())


def run_updates(updates: Sequence[tuple[tf.Variable, tf.Tensor]], is_valid: tf.Tensor) -> tf.Tensor:
    """Return a tensor that is available when the updates are made, or left out in a void step."""
    gate = Gate(is_valid)
    with gate.behind():
        assigned = []
        for variable, value in updates:
            with on_device(variable.device):
                assigned.append(variable.assign(value, read_value=False))
    return gate.wait_for(assigned)
