"""Types that several packages name: aliases, and protocols of objects that are defined in packages above.

Callbacks work on a trainer and towers on a strategy; a protocol has the part of them that code below may use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# What is TensorFlow's, for modules and protocols that name it and do not import TensorFlow.
Graph: TypeAlias = Any
Session: TypeAlias = Any
Summary: TypeAlias = Any
Event: TypeAlias = Any

Fetches: TypeAlias = Any
"""What a session runs: any nest of tensors, operations and their names."""

GradsAndVars: TypeAlias = Sequence[tuple[Any, Any]]
"""Pairs of a gradient, dense, ``IndexedSlices`` or None, and its variable, as a v1 optimizer gives and takes them."""


class Counters(Protocol):
    """Position and length of a training."""

    @property
    def steps_per_epoch(self) -> int:
        """Steps in each epoch."""

    @property
    def starting_epoch(self) -> int:
        """The first epoch of this run, counted from 1."""

    @property
    def max_epoch(self) -> int:
        """The last epoch."""

    @property
    def starting_step(self) -> int:
        """Finished steps of the first epoch, from an earlier run."""

    @property
    def epoch_num(self) -> int:
        """The current epoch; ``starting_epoch - 1`` before the first."""

    @property
    def local_step(self) -> int:
        """Finished steps of the current epoch."""

    @property
    def global_step(self) -> int:
        """Finished steps of all runs."""

    @property
    def num_coming(self) -> int:
        """Steps of the next run of the train op."""

    @property
    def is_epoch_over(self) -> bool:
        """Whether nothing but saving is left of the current epoch."""


class Monitors(Protocol):
    """Destination of a callback's statistics, and source of those of others."""

    def put_scalar(self, name: str, val: SupportsFloat) -> None:
        """Report a number."""

    def put_image(self, name: str, val: ArrayLike) -> None:
        """Report images."""

    def put_summary(self, summary: bytes | Summary) -> None:
        """Report an evaluated summary."""

    def put_event(self, evt: Event) -> None:
        """Report an event."""

    def hold_back(self, names: Iterable[str]) -> None:
        """Keep scalars of some names for a callback that reports in their place."""

    def take_held(self) -> dict[str, float]:
        """Return the last value of each scalar that was held back since the last call."""

    def put_merged(self, name: str, number: float) -> None:
        """Report a number, also under a name that is held back."""

    def get_latest(self, name: str) -> float:
        """Return the last value of a scalar; `CallbackError` if there is none."""

    def get_history(self, name: str) -> list[float]:
        """Return all values of a scalar in this run, oldest first; `CallbackError` if there is none."""


class BuiltTower(Protocol):
    """A finished call of a tower function."""

    @property
    def context(self) -> Any:
        """The `TowerContext` it was called in."""

    @property
    def inputs(self) -> list[Any]:
        """The input tensors, one for each entry of the signature."""

    def get_tensor(self, name: str) -> Any:
        """Return a tensor by the name it has inside of the tower."""


class Interruption(Protocol):
    """End of a training whose step does not return."""

    def fail(self, error: Exception) -> None:
        """Raise ``error`` in the step; called from another thread."""

    def held(self) -> AbstractContextManager[None]:
        """Keep a signal from ending training inside of a block."""

    def wait_until_left(self, timeout_secs: float) -> bool:
        """Wait until the last step has ended; return whether it has."""


class Peers(Protocol):
    """Exchange of small values between the workers of a training, all of which make the same calls."""

    @property
    def rank(self) -> int:
        """The number of this worker, from 0."""

    @property
    def size(self) -> int:
        """The number of workers."""

    def gather(self, topic: str, value: Any, *, timeout_secs: float | None = None) -> list[Any]:
        """Return the values of all workers, by rank."""

    def broadcast(self, topic: str, value: Any = None, *, root: int = 0) -> Any:
        """Return the value of one worker, in all."""


class DataSource(Protocol):
    """Source of the data of a training."""

    def data_state(self) -> dict[str, Any] | None:
        """Return the position after the last data that a finished step used; None without one."""

    def size(self) -> int:
        """Return the number of data points in one epoch."""


class Trainer(Counters, Protocol):
    """A trainer, for callbacks; ``tpack.train.trainer.Trainer`` has the times at which attributes are set."""

    @property
    def graph(self) -> Graph:
        """The graph that is trained."""

    @property
    def train_op(self) -> Fetches:
        """The operation of one step."""

    @property
    def costs(self) -> Sequence[Any]:
        """The scalars that the train op minimises."""

    @property
    def statistics(self) -> Mapping[str, Any]:
        """Scalars of each step by name, over all towers of this process."""

    @property
    def gradients(self) -> Any:
        """The gradients of the towers of a step, and the reduced ones; None where they are not known."""

    @property
    def is_compiled(self) -> bool:
        """Whether XLA compiles steps, so that all of them should fetch the same."""

    @property
    def sanity_steps(self) -> int:
        """The batches that each tower of an evaluation runs before the first step."""

    @property
    def sess(self) -> Session:
        """The session."""

    @property
    def hooked_sess(self) -> Session:
        """The session that runs the callbacks' fetches too."""

    @property
    def loop(self) -> Counters:
        """The counters of epochs and steps."""

    @property
    def monitors(self) -> Monitors:
        """The destinations of statistics."""

    @property
    def input_source(self) -> DataSource | None:
        """The input source, if there is one."""

    def agree_to_save(self, wanted: bool = True) -> bool:
        """Return whether the chief saves now; all processes call it before."""

    def spread_values(self) -> None:
        """Give all towers, of all workers, the values of the main tower of the chief; all processes call it."""

    def prepare_save(self) -> dict[str, Any]:
        """Let each callback veto a checkpoint; return their additions to it."""

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints and logs."""

    @property
    def peers(self) -> Peers | None:
        """The workers that train together; None on one machine."""

    @property
    def interrupted(self) -> bool:
        """Whether a signal ended training."""

    @property
    def was_stopped(self) -> bool:
        """Whether a callback ended training between two steps."""

    def synchronize(self) -> None:
        """Give the main tower the result of all towers."""

    def run_between_steps(self, op: Any) -> None:
        """Run an operation that synchronises the towers, of all processes together."""

    @property
    def end_reason(self) -> str:
        """Why training ended before its last epoch; empty if it did not, or failed."""

    @property
    def has_failed(self) -> bool:
        """Whether training ended with an error; known in ``after_train``."""

    @property
    def interruption(self) -> Interruption | None:
        """Ends training early, while its loop runs."""


class Strategy(Protocol):
    """A distribution strategy, for the code below it."""

    @property
    def is_default(self) -> bool:
        """Whether it is the default strategy, current outside of all others."""

    @property
    def is_single_tower(self) -> bool:
        """Whether there is a single tower."""

    @property
    def num_towers(self) -> int:
        """K, the number of towers."""
