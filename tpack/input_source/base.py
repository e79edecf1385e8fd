"""The contract of input sources.

An input source gives each tower its input tensors, and callbacks that supply them: a thread that fills a queue, a feed
with each step, or nothing. It is independent of model and trainer. `tensors.PlaceholderInput` supplies nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, CallbackFactory
from tpack.dataflow.base import DataFlow
from tpack.dataflow.iterator_state import StatelessError
from tpack.errors import DataPointError, InputError
from tpack.input_source.spec_check import Component, SpecMismatch
from tpack.tower.context import get_current_tower_context
from tpack.tower.tower_func import InputSignature


class InputSource:
    """Origin of the towers' input tensors.

    A trainer calls `setup`, then `get_input_tensors` once in each tower, and registers the callbacks. Subclasses
    override the methods that start with an underscore. One object serves one graph.
    """

    _signature: Sequence[tf.TensorSpec] | None = None
    _callbacks: Sequence[Callback] | None = None
    _scope: str | None = None

    # Called by a trainer.

    def setup(self, signature: Sequence[tf.TensorSpec]) -> list[Callback]:
        """Prepare for the current graph and inputs of different names, and return the callbacks of the source.

        Raises:
            ConfigError: The signature is malformed.
            InputError: The source was set up before.
        """
        if self.setup_done():
            raise InputError(f"{self} was set up before: one input source serves one graph, create a new one")
        specs = InputSignature(signature)
        # Opened here first, so that it is in no tower.
        with self.cached_name_scope():
            pass
        self._setup(specs)
        self._signature = specs
        return self.get_callbacks()

    def setup_done(self) -> bool:
        """Return whether `setup` was called."""
        return self._signature is not None

    def get_input_tensors(self) -> list[tf.Tensor]:
        """Make one tower's input tensors, one for each entry of the signature; called once in each tower.

        K towers that run in one step take K successive data points, in order, unless the source documents another rule.

        Raises:
            InputError: The source was not set up.
            DataPointError: The tensors do not fit the signature.
        """
        signature = self._require_setup()
        tower = get_current_tower_context()
        if tower is not None:
            # Each tower gets tensors of its own.
            tower.note_asked("get_input_tensors")
        tensors = self._get_input_tensors()
        if len(tensors) != len(signature):
            raise DataPointError(f"{self} gives {len(tensors)} tensors, the signature expects {len(signature)}")
        try:
            for position, (tensor, spec) in enumerate(zip(tensors, signature, strict=True)):
                Component(position, spec).check_tensor(tensor)
        except SpecMismatch as misfit:
            raise DataPointError(f"{self} gives tensors that do not fit the signature: {misfit}") from None
        return list(tensors)

    def get_callbacks(self) -> list[Callback]:
        """Return the callbacks of the input, always the same objects; raise InputError before `setup`."""
        self._require_setup()
        if self._callbacks is None:
            self._callbacks = self._make_callbacks()
        return list(self._callbacks)

    def reset_state(self) -> None:
        """Return to the first data point, before training and before each round of inference, between steps.

        There must be a default session. A source that has failed, or was not set up, raises an InputError.
        """
        self._require_setup()
        self._reset_state()

    def size(self) -> int:
        """Return the number of data points in one epoch; raise NotImplementedError if it is unknown."""
        return self._size()

    def steps_of_pass(self, num_towers: int) -> int:
        """Return the rounded number of steps of one pass, at least one; raise NotImplementedError if it is unknown.

        Each tower takes a data point of its own; a source that gives all of them the same overrides this.
        """
        size = self.size()
        return max(1, size // num_towers) if size else 0

    def samples(self) -> tuple[int | None, int | None]:
        """Return the samples of a tower's step and of a pass; None for what is unknown."""
        return None, None

    def data_state(self) -> dict[str, Any] | None:
        """Return the position after the last data point that a finished step used; no step may be running.

        It is None where there is no position, as in a source that computes its data in the graph.

        Raises:
            StatelessError: The position is unknown.
        """
        return None

    def load_data_state(self, state: dict[str, Any]) -> None:
        """Start the data at a position from `data_state`; called before `setup`.

        Raises:
            StatelessError: The data of this source have no position.
            InputError: The state is invalid, or the source was set up before.
        """
        raise StatelessError(f"the data of {self} have no position to go to")

    def deal_data_states(self, states: Sequence[dict[str, Any]], rank: int, size: int) -> None:
        """Start one worker's data where all former workers, by their ranks, stopped; called before `setup`.

        Raises:
            StatelessError: The data of this source have no position, or cannot be resharded.
            InputError: A state is invalid, or the source was set up before.
        """
        if len(states) != size:
            raise StatelessError(f"the data of {self} cannot be dealt out anew")
        self.load_data_state(states[rank])

    @property
    def dataflow(self) -> DataFlow | None:
        """The dataflow of the data, if they have one."""
        return None

    def mark_prefetched(self, num_times: int) -> None:
        """Count data, taken by a tower ``num_times`` last, as prefetched: no step has used them."""

    @contextmanager
    def cached_name_scope(self) -> Iterator[str]:
        """Open the name scope of the source's operations, the same one each time."""
        # A name that ends in a slash is absolute.
        with tf.name_scope(self._scope or type(self).__name__.lstrip("_")) as scope:
            self._scope = scope
            yield scope

    # Overridden by subclasses.

    def _setup(self, signature: Sequence[tf.TensorSpec]) -> None:
        """Add the operations that all towers share."""

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        """Make one tower's tensors, in the order of the signature."""
        raise NotImplementedError(f"{type(self).__name__} does not override _get_input_tensors")

    def _get_callbacks(self) -> Sequence[Callback]:
        """Make the callbacks, once."""
        return []

    def _reset_state(self) -> None:
        """Return to the first data point."""

    def _size(self) -> int:
        raise NotImplementedError(f"the size of {self} is not known")

    # Internal to the package.

    def _require_session(self) -> tf.Session:
        session = tf.get_default_session()
        if session is None:
            raise InputError(f"{self} is reset without a default session: write 'with session.as_default():'")
        return session

    def _make_callbacks(self) -> Sequence[Callback]:
        reset = CallbackFactory(before_train=lambda _: self.reset_state()).set_chief_only(False)
        return [reset, *self._get_callbacks()]

    def _require_setup(self) -> Sequence[tf.TensorSpec]:
        if self._signature is None:
            raise InputError(f"{self} is not set up: call setup(signature) first")
        return self._signature

    def __str__(self) -> str:
        return type(self).__name__.lstrip("_")


class FeedfreeInput(InputSource):
    """Input source whose tensors have their values in the graph: steps need no feed."""
