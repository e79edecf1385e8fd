"""The current place in a graph that is being built: a tower, or a strategy across whose towers the code is.

A tower is one copy of the model on one device. Its function is plain TensorFlow code; the `TowerContext` around it
opens the scopes that give the copy its names, device and variables, and answers the questions of layers.

Each graph and thread has a stack of `Frame`, one for each open block of a tower, a strategy or an update; trainers and
strategies use the innermost one. Code of a loop, condition or function, which TensorFlow builds into a graph of its
own, belongs to the frame around it.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.graphs import continue_scope_counts, control_flow_of, only_in
from tpack.errors import ConfigError, TowerError, TowerMismatchError, TpackError
from tpack.tower.collections import TowerCollections
from tpack.tower.devices import Device
from tpack.tower.getters import custom_getter_scope
from tpack.tower.keras_values import KerasValues, check_own_layers
from tpack.tower.merge_call import MergeCall, Merged, merge, part_of_tower
from tpack.tower.names import VARIABLE_KEYS, check_handle_use, check_same_graph
from tpack.tower.ownership import Ownership, VariableRecorder, ownership_of
from tpack.tower.per_graph import PerGraph, built_graph
from tpack.types import Strategy
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, mismatch

Meet: TypeAlias = Callable[[int, MergeCall], Merged]
"""Waits until all towers that are built together have come to a meeting, and returns one tower's part of the result."""


@check_arguments
class TowerContext:
    """The block in which a tower function is called; it can be entered once.

    Losses of earlier towers are hidden inside. Summaries are kept from the main training tower only, update ops from
    every tower with variables of its own and otherwise from the main training tower. A prediction tower adds nothing to
    these collections.

    Args:
        tower_name: the name scope of the tower; empty for none.
        is_training: whether the model is built for training.
        vs_name: the variable scope of the tower; empty for the current one.
        index: the number of this tower among K.
        total: K.
        device: a device name or device function for the tower; None keeps the current one.
        has_own_variables: whether the tower creates its own variables, apart from the main one's.
        reuse: use existing variables and create only local ones.
        ownership: of the variables; by default from the arguments above.

    Attributes:
        asked: the properties that the tower's code has read and that differ between towers.
        copying: the copies of the towers that are built together, `tpack.graph_copy`.
        repeated: the calls of `repeat_in_copies`.
        own_constants: functions that return the values of this tower's constants in another tower, by name.

    Raises:
        ConfigError: The index is not below the total.
        TowerError: It is entered inside another tower of the same graph, or a second time.

    Example:
        with TowerContext("", is_training=True):
            cost = tower_func(*input.get_input_tensors())
    """

    def __init__(
        self,
        tower_name: str,
        is_training: bool,
        vs_name: str = "",
        *,
        index: int = 0,
        total: int = 1,
        device: Device | None = None,
        has_own_variables: bool | None = None,
        reuse: bool = False,
        ownership: Ownership | None = None,
    ) -> None:
        check_count(self, "total", total)
        if not 0 <= index < total:
            raise ConfigError(mismatch(self, "index", index, f"the number of one of {total} towers"))
        self._name = tower_name
        self.is_training = bool(is_training)
        self._vs_name = vs_name
        self._index = index
        self.total = total
        self._device = device
        self.asked: set[str] = set()
        self.has_own_variables = bool(vs_name) if has_own_variables is None else has_own_variables
        self.ownership = ownership or ownership_of(
            is_training=self.is_training, is_main=index == 0, has_own_variables=self.has_own_variables, reuse=reuse
        )
        # tf.Variable, and with it Keras, names by name scopes: those of the first tower, in training or where nothing
        # was trained, are called as if it were alone.
        unnamed_scope = tower_name if index == 0 and not reuse else ""
        self.recorder = VariableRecorder(repr(self), self.ownership, unnamed_scope=unnamed_scope, own_scope=tower_name)
        self.collections = TowerCollections(self.ownership.policy, says_dropped=self.is_training)
        self.copying: object = None
        self.repeated: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.own_constants: dict[str, Callable[[TowerContext], np.ndarray]] = {}
        self._reuse = reuse
        self._graph: tf.Graph | None = None
        self.control_flow: object = None
        self._scopes = ExitStack()

    @property
    def name(self) -> str:
        """The name scope of the tower; empty for none."""
        self._note_asked("name")
        return self._name

    @property
    def ns_name(self) -> str:
        """The name scope of the tower; empty for none."""
        self._note_asked("ns_name")
        return self._name

    @property
    def vs_name(self) -> str:
        """The variable scope of the tower; empty for the one around it."""
        self._note_asked("vs_name")
        return self._vs_name

    @property
    def index(self) -> int:
        """The number of this tower among K."""
        self._note_asked("index")
        return self._index

    @property
    def device(self) -> Device | None:
        """The device name or device function of the tower; None for the current one."""
        self._note_asked("device")
        return self._device

    def _note_asked(self, what: str) -> None:
        # What tpack does with the answer is known to be alike in all towers, or said by `note_asked`.
        caller = sys._getframe(2).f_globals.get("__name__", "")
        if not caller.startswith("tpack."):
            self.asked.add(what)

    def note_asked(self, what: str) -> None:
        """Record for the log that the graph may depend on a property that differs between towers."""
        self.asked.add(what)

    def repeat_in_copies(self, func: Callable[..., None], *args: Any) -> None:
        """Repeat a call in Python, just made for this tower, in each copy, with the copy's counterparts."""
        self.repeated.append((func, args))

    @property
    def is_main_tower(self) -> bool:
        """Whether this is the first tower."""
        return self._index == 0

    @property
    def is_main_training_tower(self) -> bool:
        """Whether this is the first tower and built for training, which alone writes summaries."""
        return self.is_training and self._index == 0

    @property
    def updates_variables(self) -> bool:
        """Whether layers update variables such as moving averages here; see `Ownership`."""
        return self.ownership.updates_variables

    def get_collection_in_tower(self, key: str) -> list[Any]:
        """Return the tower's additions to a collection, also after the tower was left.

        Without own variables, the collections of variables are returned whole, since all towers share them.

        Raises:
            TowerError: The tower was not entered yet.
        """
        if self._graph is None:
            raise TowerError(f"{self!r} was not entered yet, so it has no collections")
        if key in VARIABLE_KEYS and not self.has_own_variables:
            return self.collections.visible(key)
        return self.collections.added(key)

    def merge_call(self, fn: Callable[..., Merged], *args: Any) -> Merged:
        """Wait for the K training towers of a builder, and call a function once with the values of all.

        A tower for prediction is alone, with K = 1, and so is the training tower of a simple builder.

        The towers take turns, and all have reached the call when one continues. Attributes that a model set before then
        have the last tower's values: keep the values in local variables.

        Args:
            fn: the first tower's is called, outside every tower (see `outside`), with the list of the K towers' values
                for each argument. It returns a list of K results, one for each tower; tuples and dicts of such lists,
                of which each tower gets containers of its own; or None for all.
            *args: this tower's values.

        Returns:
            This tower's part.

        Raises:
            TowerMismatchError: The towers call it different numbers of times, or with functions of different code or
                different numbers of arguments. The message compares two of them.
            TowerError: This is not the current tower, its partners are not built together with it, ``fn`` returned
                something else, or this is a TensorFlow loop or condition.
        """
        self.note_asked("merge_call")
        frame = current_frame()
        if frame.tower is not self or not self.collections.is_open or is_in_control_flow():
            raise TowerError(
                f"merge_call of {self!r} can be called only while it is current and being built: not in a function "
                "given to merge_call, in a TensorFlow loop, condition or tf.function, in another thread, or later"
            )
        if not self.is_training or self.total == 1:
            with self.left():
                return part_of_tower(merge([MergeCall(fn, args)]), 0)
        if frame.meet is None:
            raise TowerError(
                f"{self!r} was entered alone and cannot meet the other {self.total - 1}; use a graph builder, "
                "build_towers or call_in_towers"
            )
        return frame.meet(self.index, MergeCall(fn, args))

    @contextmanager
    def left(self) -> Iterator[None]:
        """Build a block `outside` of the tower while it is not current."""
        around = next(frame for frame in reversed(_frames.here().stack) if frame.tower is not self)
        with entered(replace(around, update_device=current_frame().update_device, meet=None)), self.outside():
            yield

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Leave the tower's device, scopes and variables, but not its summaries, for a block that all towers share."""
        # A new root scope drops the custom getters and reuse of the tower; AUTO_REUSE finds what was shared before.
        root = tf.VariableScope(reuse=tf.AUTO_REUSE, name="")
        with ExitStack() as scopes:
            scopes.enter_context(self.recorder.paused())
            # Forgets devices as well.
            scopes.enter_context(tf.get_default_graph().colocate_with(None, ignore_existing=True))
            scopes.enter_context(only_in(self.control_flow))
            scopes.enter_context(tf.variable_scope(root, auxiliary_name_scope=False))
            scopes.enter_context(tf.name_scope(None))
            yield

    @contextmanager
    def revisited(self) -> Iterator[None]:
        """Make this tower current again, after it was left, for a block that updates its variables.

        Raises:
            TowerError: The tower was not left yet, or another one is current.
        """
        if get_current_tower_context() is not None or self._graph is None:
            raise TowerError(f"cannot revisit {self!r}: it must have been left, and no tower may be current")
        with entered(current_frame().inside(tower=self)):
            yield

    def __enter__(self) -> "TowerContext":
        around = current_frame()
        if around.tower is not None:
            raise TowerError(f"cannot enter {self!r} inside {around.tower!r}: towers of one graph cannot be nested")
        if self._graph is not None:
            raise TowerError(f"{self!r} was used already: make a new context for each call of the tower function")
        self._graph = tf.get_default_graph()
        self.control_flow = control_flow_of(self._graph)
        try:
            self._open_scopes(self._graph)
        except BaseException:
            self._scopes.close()
            raise
        self.collections.open()
        self._keras_values = KerasValues(from_start=self.is_main_tower)
        push_frame(replace(around.inside(tower=self), meet=around.meet))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pop_frame()
        if error is None:
            # The variables whose first values this tower may set: its own, and those that were there before it.
            around = tf.global_variables() if self.is_main_tower and not self._reuse else []
            self._keras_values.keep([*around, *self.recorder.variables])
        self.collections.close()
        try:
            self._scopes.__exit__(kind, error, traceback)
        except Exception as closing_error:
            # The user's own exception is the one to see; what closing says on top of it usually follows from it.
            if error is None or closing_error is error:
                raise
            logger.warning(f"Leaving {self!r} failed as well: {closing_error}")
        if error is not None:
            check_own_layers(error)
            check_handle_use(error)
            check_same_graph(error)

    def _open_scopes(self, graph: tf.Graph) -> None:
        enter = self._scopes.enter_context
        if self.device is not None:
            enter(tf.device(self.device))
        around = tf.get_variable_scope()
        enter(tf.variable_scope(self.vs_name or around, reuse=self._reuse or None, auxiliary_name_scope=False))
        if self.vs_name:
            # A scope without a name of its own is called by how many there are: as many as for the main tower.
            continue_scope_counts(around.name, tf.get_variable_scope().name)
        if self.name:
            enter(tf.name_scope(f"{self.name}/"))
        if self._reuse:
            enter(custom_getter_scope(partial(self._get_existing, graph)))
        enter(self.recorder.scope())

    def _get_existing(
        self, graph: tf.Graph, getter: Callable[..., tf.Variable], name: str, *args: Any, **kwargs: Any
    ) -> tf.Variable:
        try:
            return getter(name, *args, **kwargs)
        except TpackError:
            raise
        except ValueError as error:
            known = {v.op.name for key in VARIABLE_KEYS for v in graph.get_collection(key)}
            if name in known:
                raise
            raise TowerMismatchError(
                f"{self!r} asks for the variable {name!r}, which the main training tower did not create: a tower "
                "function must use the same variables in every tower, in training and in prediction"
            ) from error

    def __repr__(self) -> str:
        use = "training" if self.is_training else "prediction"
        return f"{use} tower {self.name or '(without a name)'!r} ({self.index + 1} of {self.total})"


def get_current_tower_context() -> TowerContext | None:
    """Return the current tower of this graph and thread; None outside of towers and in merge calls."""
    return current_frame().tower


def current_tower_context() -> TowerContext:
    """Return the innermost tower of the current graph and thread; raise a TowerError if there is none."""
    context = get_current_tower_context()
    if context is None:
        raise TowerError(
            "no tower is current here: expected a call in a tower function, which a trainer calls inside one; use "
            "'with TowerContext(\"\", is_training=False): ...' around model code of your own"
        )
    return context


@check_arguments
class TrainTowerContext(TowerContext):
    """A tower built for training.

    Args:
        tower_name: the name scope of the tower.
        vs_name: the variable scope of the tower; not empty means own variables.
        **options: as for `TowerContext`.
    """

    def __init__(self, tower_name: str, vs_name: str = "", **options: Any) -> None:
        super().__init__(tower_name, True, vs_name, **options)


@check_arguments
class PredictTowerContext(TowerContext):
    """A tower built for prediction, with the variables of one training tower.

    Args:
        tower_name: the name scope of the tower.
        vs_name: the variable scope of the training tower.
        **options: as for `TowerContext`.
    """

    def __init__(self, tower_name: str, vs_name: str = "", **options: Any) -> None:
        super().__init__(tower_name, False, vs_name, **options)


@dataclass(frozen=True)
class Frame:
    """The place of code: in a tower, across the towers of a strategy, or outside both; and its update.

    At most one of the first three is not None.

    Attributes:
        tower: the tower that is being built, a trainer's or a strategy's.
        strategy: the strategy across whose towers this is.
        tower_context: a strategy's tower without a `TowerContext`, entered as a block.
        update_device: the device of the update that is being built; None outside updates.
        meet: makes the merge calls of the tower, or of those entered here; None if they are built alone.
    """

    tower: TowerContext | None = None
    strategy: Strategy | None = None
    tower_context: object = None
    update_device: str | None = None
    meet: Meet | None = None

    @property
    def is_outside(self) -> bool:
        """Whether this is outside of all towers and strategies."""
        return self.tower is None and self.strategy is None and self.tower_context is None

    @property
    def is_in_tower(self) -> bool:
        """Whether this is in a tower that was entered."""
        return self.tower is not None or self.tower_context is not None

    def inside(
        self, *, tower: TowerContext | None = None, strategy: Strategy | None = None, tower_context: object = None
    ) -> "Frame":
        """Return the frame of a block that is opened here, in the same update."""
        return Frame(tower, strategy, tower_context, self.update_device)


class _ThreadFrames(threading.local):
    def __init__(self) -> None:
        self.stack = [Frame()]


_frames: PerGraph[_ThreadFrames] = PerGraph(_ThreadFrames)


def current_frame() -> Frame:
    """Return the place of this thread in the graph that is being built."""
    return _frames.here().stack[-1]


def push_frame(frame: Frame) -> None:
    """Make a frame the current one until `pop_frame`; `entered` does both."""
    _frames.here().stack.append(frame)


def pop_frame() -> None:
    """Go back to the frame before the current one."""
    _frames.here().stack.pop()


@contextmanager
def entered(frame: Frame) -> Iterator[None]:
    """Enter a frame for a block."""
    push_frame(frame)
    try:
        yield
    finally:
        pop_frame()


def is_in_control_flow() -> bool:
    """Tell whether the code is in a loop, condition or function of TensorFlow inside the tower."""
    graph, tower = built_graph(), get_current_tower_context()
    around = None if tower is None else tower.control_flow
    return tf.get_default_graph() is not graph or control_flow_of(graph) is not around


def add_model_variable(variable: tf.Variable) -> None:
    """Add an untrained variable of the model, such as a moving average or frozen weight, to MODEL_VARIABLES, once.

    A model without its optimizer's state consists of these and the trainable variables. Of training towers, only the
    first one adds: the others have the same variables, or copies.
    """
    tower = get_current_tower_context()
    if tower is not None and tower.is_training and not tower.is_main_tower:
        return
    if not any(known is variable for known in tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)):
        tf.add_to_collection(tf.GraphKeys.MODEL_VARIABLES, variable)
