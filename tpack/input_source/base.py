"""The contract of how data reaches the graph.

An input source gives each tower its input tensors, and callbacks that keep those tensors supplied: a thread that
fills a queue, a feed with each step, or nothing at all. Where the data comes from and how it travels is one choice,
apart from the model and the trainer. `tensors.PlaceholderInput` is the source that supplies nothing.
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
    """Where the towers' input tensors come from.

    A trainer calls `setup`, then `get_input_tensors` once in each tower, and registers the callbacks. Subclasses
    override the methods that start with an underscore. One object serves one graph.
    """

    _signature: Sequence[tf.TensorSpec] | None = None
    _callbacks: Sequence[Callback] | None = None
    _scope: str | None = None

    # What a trainer calls.

    def setup(self, signature: Sequence[tf.TensorSpec]) -> list[Callback]:
        """Prepare for a graph, the current one.

        Args:
            signature: what a tower takes: ``tf.TensorSpec`` each, with different names.

        Returns:
            The callbacks that the input needs.

        Raises:
            ConfigError: The signature is malformed.
            InputError: The source was set up before.
        """
        if self.setup_done():
            raise InputError(f"{self} was set up before: one input source serves one graph, create a new one")
        specs = InputSignature(signature)
        # Opened here for the first time, so that it lies in no tower.
        with self.cached_name_scope():
            pass
        self._setup(specs)
        self._signature = specs
        return self.get_callbacks()

    def setup_done(self) -> bool:
        """Tell whether `setup` was called."""
        return self._signature is not None

    def get_input_tensors(self) -> list[tf.Tensor]:
        """Make the input tensors of one tower; to be called once in each tower.

        Returns:
            One tensor for each entry of the signature. K towers that run in one step take K successive data points,
            the first tower the first, unless the source says otherwise.

        Raises:
            InputError: The source was not set up.
            DataPointError: The tensors do not fit the signature.
        """
        signature = self._require_setup()
        tower = get_current_tower_context()
        if tower is not None:
            # Sources know the tensors of each tower, and give each its own.
            tower.note_asked("get_input_tensors")
        tensors = self._get_input_tensors()
        if len(tensors) != len(signature):
            raise DataPointError(f"{self} gives {len(tensors)} tensors, the signature wants {len(signature)}")
        try:
            for position, (tensor, spec) in enumerate(zip(tensors, signature, strict=True)):
                Component(position, spec).check_tensor(tensor)
        except SpecMismatch as misfit:
            raise DataPointError(f"{self} gives tensors that do not fit the signature: {misfit}") from None
        return list(tensors)

    def get_callbacks(self) -> list[Callback]:
        """Return the callbacks that the input needs, the same objects at each call.

        Raises:
            InputError: The source was not set up.
        """
        self._require_setup()
        if self._callbacks is None:
            self._callbacks = self._make_callbacks()
        return list(self._callbacks)

    def reset_state(self) -> None:
        """Go back to the first data point: called before training, and before each round of inference.

        A session must be the default one, and no step may be running.

        Raises:
            InputError: The source was not set up, or has failed.
        """
        self._require_setup()
        self._reset_state()

    def size(self) -> int:
        """Return the number of data points in one epoch.

        Raises:
            NotImplementedError: It is not known.
        """
        return self._size()

    def steps_of_pass(self, num_towers: int) -> int:
        """Return how many steps go through the data once, as nearly as whole steps do; at least one.

        Each tower takes a data point of its own. A source that gives all of them the same one overrides this.

        Args:
            num_towers: K.

        Raises:
            NotImplementedError: The size is not known.
        """
        size = self.size()
        return max(1, size // num_towers) if size else 0

    def samples(self) -> tuple[int | None, int | None]:
        """Return how many samples a tower takes at a time and how many a pass has; None for what is not known."""
        return None, None

    def data_state(self) -> dict[str, Any] | None:
        """Return the position right after the last data point that a finished step used; no step may be running.

        Returns:
            What `tpack.utils.serialize` takes; None where there is no position, as in a source that computes its
            data in the graph.

        Raises:
            StatelessError: There is a position, and the source cannot tell it.
        """
        return None

    def load_data_state(self, state: dict[str, Any]) -> None:
        """Let the data begin at a position; to be called before `setup`.

        Args:
            state: what `data_state` returned.

        Raises:
            StatelessError: The data of this source have no position.
            InputError: It is no such state, or the source was set up before.
        """
        raise StatelessError(f"the data of {self} have no position to go to")

    def deal_data_states(self, states: Sequence[dict[str, Any]], rank: int, size: int) -> None:
        """Let the data begin where former workers stopped, one of new ones here; to be called before `setup`.

        Args:
            states: what `data_state` returned in each of them, by rank.
            rank: the number of this worker.
            size: how many there are now.

        Raises:
            StatelessError: The data of this source have no position, or cannot be dealt out anew.
            InputError: These are no such states, or the source was set up before.
        """
        if len(states) != size:
            raise StatelessError(f"the data of {self} cannot be dealt out anew")
        self.load_data_state(states[rank])

    @property
    def dataflow(self) -> DataFlow | None:
        """The dataflow that the data come from, if they come from one."""
        return None

    def mark_prefetched(self, num_times: int) -> None:
        """Count the last data that were taken out of this source as prefetched: no step has used them yet.

        Args:
            num_times: how many times a tower's data were taken out.
        """

    @contextmanager
    def cached_name_scope(self) -> Iterator[str]:
        """Open the name scope of the source's own operations, the same one each time."""
        # A name that ends in a slash is taken as it is, whatever scope is open around it.
        with tf.name_scope(self._scope or type(self).__name__.lstrip("_")) as scope:
            self._scope = scope
            yield scope

    # What a subclass overrides.

    def _setup(self, signature: Sequence[tf.TensorSpec]) -> None:
        """Add to the graph what all towers share."""

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        """Make one tower's tensors, in the order of the signature."""
        raise NotImplementedError(f"{type(self).__name__} does not override _get_input_tensors")

    def _get_callbacks(self) -> Sequence[Callback]:
        """Make the callbacks, once."""
        return []

    def _reset_state(self) -> None:
        """Go back to the first data point."""

    def _size(self) -> int:
        raise NotImplementedError(f"the size of {self} is not known")

    # For the family alone.

    def _require_session(self) -> tf.Session:
        session = tf.get_default_session()
        if session is None:
            raise InputError(
                f"{self} is reset in a session, and none is the default: write 'with session.as_default():'"
            )
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
    """An input source whose tensors have their values in the graph: a step needs no feed to run."""
