"""The types that several packages speak of and none of them owns: aliases, and protocols of what is made further up.

Callbacks work on a trainer and towers on a strategy, and both are defined in packages above them. A protocol says here
what may be asked of such an object, so that code below can name its type without importing it.
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
    """Where a training stands, and what it runs to."""

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
        """How many steps of the first epoch an earlier run has finished."""

    @property
    def epoch_num(self) -> int:
        """The current epoch; ``starting_epoch - 1`` before the first."""

    @property
    def local_step(self) -> int:
        """How many steps of the current epoch are finished."""

    @property
    def global_step(self) -> int:
        """How many steps are finished in all runs."""

    @property
    def num_coming(self) -> int:
        """How many steps the coming run of the train op makes."""

    @property
    def is_epoch_over(self) -> bool:
        """Whether nothing is left to be done in the current epoch but saving it."""


class Monitors(Protocol):
    """Where a callback reports statistics, and reads those that others reported."""

    def put_scalar(self, name: str, val: SupportsFloat) -> None:
        """Report a number."""

    def put_image(self, name: str, val: ArrayLike) -> None:
        """Report images."""

    def put_summary(self, summary: bytes | Summary) -> None:
        """Report an evaluated summary."""

    def put_event(self, evt: Event) -> None:
        """Report an event."""

    def hold_back(self, names: Iterable[str]) -> None:
        """Keep scalars of some names, for who takes them and reports in their place."""

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
    """Ends a training whose step does not return."""

    def fail(self, error: Exception) -> None:
        """Have the step raise ``error``; called from another thread."""

    def held(self) -> AbstractContextManager[None]:
        """Keep a signal from ending training inside of a block."""

    def wait_until_left(self, timeout_secs: float) -> bool:
        """Wait until the last step has ended; return whether it has."""


class Peers(Protocol):
    """The line of the workers of a training to each other, for small values; all of them make the same calls."""

    @property
    def rank(self) -> int:
        """The number of this worker, from 0."""

    @property
    def size(self) -> int:
        """How many workers there are."""

    def gather(self, topic: str, value: Any, *, timeout_secs: float | None = None) -> list[Any]:
        """Return the values of all workers, by rank."""

    def broadcast(self, topic: str, value: Any = None, *, root: int = 0) -> Any:
        """Return the value of one worker, in all."""


class DataSource(Protocol):
    """Where the data of a training come from."""

    def data_state(self) -> dict[str, Any] | None:
        """Return the position right after the last data that a finished step used, None if there is none."""

    def size(self) -> int:
        """Return the number of data points in one epoch."""


class Trainer(Counters, Protocol):
    """What a callback may ask of its trainer; ``tpack.train.trainer.Trainer`` says when each thing is there."""

    @property
    def graph(self) -> Graph:
        """The graph that is trained."""

    @property
    def train_op(self) -> Fetches:
        """What one step runs."""

    @property
    def costs(self) -> Sequence[Any]:
        """The scalars that the train op minimises."""

    @property
    def statistics(self) -> Mapping[str, Any]:
        """Scalars of each step, over all towers of this process, by the names of their statistics."""

    @property
    def is_compiled(self) -> bool:
        """Whether XLA compiles steps, so that all of them should fetch the same."""

    @property
    def sess(self) -> Session:
        """The session."""

    @property
    def hooked_sess(self) -> Session:
        """The session whose runs carry the callbacks' fetches along."""

    @property
    def loop(self) -> Counters:
        """The counters of epochs and steps, which are the trainer's too."""

    @property
    def monitors(self) -> Monitors:
        """Where statistics go."""

    @property
    def input_source(self) -> DataSource | None:
        """Where the data come from, if it is an input source."""

    def prepare_save(self) -> dict[str, Any]:
        """Let each callback object to what is about to be saved; return what they add to a checkpoint."""

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints and logs."""

    @property
    def peers(self) -> Peers | None:
        """The workers of which this process is one; None where one machine trains alone."""

    @property
    def interrupted(self) -> bool:
        """Whether a signal ended training."""

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
    """A distribution strategy, to code that its own module stands on."""

    @property
    def is_default(self) -> bool:
        """Whether it is the one that is current outside of all others."""

    @property
    def is_single_tower(self) -> bool:
        """Whether there is a single tower."""

    @property
    def num_towers(self) -> int:
        """K, the number of towers."""
