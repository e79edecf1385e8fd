"""What a tower function sees of where it runs.

A tower is one copy of the model on one device. Its function is plain TensorFlow code; the context around it opens the
scopes that give the copy its names, device and variables, and answers the questions that layers ask.

The two kinds of towers, for code that knows which one it wants.

The stack of what is current: towers, and the blocks of distribution strategies; one for each graph and each thread.

A context sits on it exactly as long as its ``with`` block runs. Code of a loop or condition, which TensorFlow builds
into a graph of its own, is part of the tower around it. Graphs are held weakly, so a finished graph takes its stack
along.

Code in loops, conditions and functions of TensorFlow, which is built apart from the graph that it belongs to.

Such code is built into a graph of its own inside the other one. It sees the tower that it is part of; what it adds to
a collection of operations, nobody outside can run.

Variables that belong to the model though they are not trained: moving averages, and weights that are frozen.

They are in the collection MODEL_VARIABLES. Whoever writes a model without what only its optimizer needs, writes these
and the trainable variables.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow.compat.v1 as tf

from tpack import compat
from tpack.errors import ConfigError, TowerError, TowerMismatchError
from tpack.tower.collections import VARIABLE_KEYS, TowerCollections
from tpack.tower.getters import custom_getter_scope
from tpack.tower.merging import MergeCall, merge, part_of_tower
from tpack.tower.recorder import VariableRecorder
from tpack.utils import logger


class TowerContext:
    """The block in which a tower function is called; it can be entered once.

    Losses that an earlier tower collected are out of sight inside. Summaries are kept from the main training tower
    only, update ops from every tower that has variables of its own and otherwise from the main training tower. Nothing
    that a prediction tower adds to these collections is kept.

    Args:
        tower_name: the name scope of the tower; empty for none.
        is_training: whether the model is built for training.
        vs_name: the variable scope of the tower; empty for the current one.
        index: which of the K towers this is.
        total: K.
        device: a device name or device function for the tower; None leaves the current one.
        has_own_variables: whether the tower creates its own variables, apart from the main one's.
        reuse: take the variables that exist and create none but local ones.

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
        device: Any = None,
        has_own_variables: bool | None = None,
        reuse: bool = False,
    ) -> None:
        if not 0 <= index < total:
            raise ConfigError(f"tower index {index} is not one of {total} towers")
        self.name = tower_name
        self.is_training = bool(is_training)
        self.vs_name = vs_name
        self.index = index
        self.total = total
        self.device = device
        self.has_own_variables = bool(vs_name) if has_own_variables is None else has_own_variables
        self.recorder = VariableRecorder(
            repr(self),
            as_copies=self.is_training and self.has_own_variables and index > 0,
            only_local=reuse,
            # tf.Variable, and with it Keras, names by name scopes: those of the first tower, in training or where
            # nothing was trained, are called as if it were alone.
            unnamed_scope=tower_name if index == 0 and not reuse else "",
        )
        self.collections = TowerCollections(
            is_training=self.is_training, has_own_variables=self.has_own_variables, is_main=index == 0
        )
        self.meet: Callable[[int, MergeCall], Any] | None = None
        # Whether layers update variables such as moving averages here: in training, once for each set of variables.
        self.updates_variables = self.is_training and (self.has_own_variables or index == 0)
        # What distribution strategies show of this tower; made by tpack.distribute.
        self.strategy_context: Any = None
        self._reuse = reuse
        self._graph: Any = None
        self._scopes = ExitStack()

    @property
    def ns_name(self) -> str:
        """The name scope of the tower; empty for none."""
        return self.name

    @property
    def is_main_tower(self) -> bool:
        """Whether this is the first tower."""
        return self.index == 0

    @property
    def is_main_training_tower(self) -> bool:
        """Whether this is the first tower and built for training: what writes summaries once a run asks this."""
        return self.is_training and self.index == 0

    def get_collection_in_tower(self, key: str) -> list[Any]:
        """Return what this tower added to a collection, also after the tower was left.

        Variables that towers share belong to all of them: without own variables, the collections of variables are
        returned whole.

        Raises:
            TowerError: The tower was not entered yet.
        """
        if self._graph is None:
            raise TowerError(f"{self!r} was not entered yet, so it has no collections")
        if key in VARIABLE_KEYS and not self.has_own_variables:
            return self.collections.visible(key)
        return self.collections.added(key)

    def merge_call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Wait for the K training towers of a builder, and call a function once with what all of them brought.

        A tower for prediction is alone, with K = 1, and so is the training tower of a simple builder.

        The towers take turns, and all have come this far when one goes on. What a model put into an attribute before is
        then the last tower's: keep what is used after in variables of the function.

        Args:
            fn: the first tower's is called, outside of every tower (see `outside`). For each argument it gets the list
                of the K towers' values. It returns a list of K results, of which each tower gets its own, or tuples and
                dicts of such lists, of which each tower gets the same containers of its own, or None, which all get.
            *args: this tower's values.

        Returns:
            This tower's part.

        Raises:
            TowerMismatchError: The towers call it different numbers of times, or with functions of different code or
                different numbers of arguments. The message says what two of them did.
            TowerError: This is not the current tower, its partners are not built together with it, ``fn`` returned
                something else, or this is a TensorFlow loop or condition.
        """
        if get_current_tower_context() is not self or not self.collections.is_open or is_in_control_flow():
            raise TowerError(
                f"merge_call of {self!r} can be called only while it is current and being built: not in a function "
                "given to merge_call, in a TensorFlow loop, condition or tf.function, in another thread, or later"
            )
        if not self.is_training or self.total == 1:
            with self.left():
                return part_of_tower(merge([MergeCall(fn, args)]), 0)
        if self.meet is None:
            raise TowerError(
                f"{self!r} was entered alone and cannot meet the other {self.total - 1}: build them with a graph "
                "builder, build_towers or call_in_towers"
            )
        return self.meet(self.index, MergeCall(fn, args))

    @contextmanager
    def left(self) -> Iterator[None]:
        """Build a block `outside` of the tower, without it being the current one."""
        context_stack().remove(self)
        try:
            with self.outside():
                yield
        finally:
            context_stack().append(self)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Leave the tower's device, scopes and variables for a block: what it builds is shared by all towers.

        Summaries added in the block are kept as those of the tower are.
        """
        # A new root scope drops the custom getters and reuse of the tower; AUTO_REUSE finds what was shared before.
        root = tf.VariableScope(reuse=tf.AUTO_REUSE, name="")
        with ExitStack() as scopes:
            scopes.enter_context(self.recorder.paused())
            # Forgets devices as well.
            scopes.enter_context(tf.get_default_graph().colocate_with(None, ignore_existing=True))
            scopes.enter_context(tf.control_dependencies(None))
            scopes.enter_context(tf.variable_scope(root, auxiliary_name_scope=False))
            scopes.enter_context(tf.name_scope(None))
            yield

    @contextmanager
    def revisited(self) -> Iterator[None]:
        """Make this tower the current one again for a block that updates its variables, after it was left.

        The block learns which tower it works for. Scopes, device and variables are those around it.

        Raises:
            TowerError: The tower was not left yet, or another one is current.
        """
        if get_current_tower_context() is not None or self._graph is None:
            raise TowerError(f"cannot revisit {self!r}: it must have been left, and no tower may be current")
        context_stack().append(self)
        try:
            yield
        finally:
            context_stack().remove(self)

    def __enter__(self) -> "TowerContext":
        around = get_current_tower_context()
        if around is not None:
            raise TowerError(f"cannot enter {self!r} inside {around!r}: towers of one graph cannot be nested")
        if self._graph is not None:
            raise TowerError(f"{self!r} was used already: make a new context for each call of the tower function")
        self._graph = tf.get_default_graph()
        try:
            self._open_scopes()
        except BaseException:
            self._scopes.close()
            raise
        self.collections.open()
        context_stack().append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        context_stack().remove(self)
        self.collections.close()
        try:
            self._scopes.__exit__(kind, error, traceback)
        except Exception as closing_error:
            # The user's own exception is the one to see; what closing says on top of it usually follows from it.
            if error is None or closing_error is error:
                raise
            logger.warning(f"Leaving {self!r} failed as well: {closing_error}")

    def _open_scopes(self) -> None:
        enter = self._scopes.enter_context
        if self.device is not None:
            enter(tf.device(self.device))
        scope = self.vs_name or tf.get_variable_scope()
        enter(tf.variable_scope(scope, reuse=self._reuse or None, auxiliary_name_scope=False))
        if self.name:
            enter(tf.name_scope(f"{self.name}/"))
        if self._reuse:
            enter(custom_getter_scope(self._get_existing))
        enter(self.recorder.scope())

    def _get_existing(self, getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return getter(name, *args, **kwargs)
        except ValueError as error:
            known = {v.op.name for key in VARIABLE_KEYS for v in self._graph.get_collection(key)}
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
    """Return the current tower of this graph and thread; None outside of towers, and where towers have met."""
    stack = context_stack()
    return stack[-1] if stack and isinstance(stack[-1], TowerContext) else None


def current_tower_context() -> TowerContext:
    """Return the innermost tower of the current graph and thread.

    Raises:
        TowerError: There is none.
    """
    context = get_current_tower_context()
    if context is None:
        raise TowerError(
            "no tower is current here: a trainer calls the tower function inside one. To call model code yourself, "
            "write 'with TowerContext(\"\", is_training=False): ...' around it"
        )
    return context


class TrainTowerContext(TowerContext):
    """A tower built for training.

    Args:
        tower_name: the name scope of the tower.
        vs_name: the variable scope of the tower; not empty means variables of its own.
        **options: as for `TowerContext`.
    """

    def __init__(self, tower_name: str, vs_name: str = "", **options: Any) -> None:
        super().__init__(tower_name, True, vs_name, **options)


class PredictTowerContext(TowerContext):
    """A tower built for prediction: it takes the variables of one training tower.

    Args:
        tower_name: the name scope of the tower.
        vs_name: the variable scope of the training tower whose variables are used.
        **options: as for `TowerContext`.
    """

    def __init__(self, tower_name: str, vs_name: str = "", **options: Any) -> None:
        super().__init__(tower_name, False, vs_name, **options)


class _ThreadStacks(threading.local):
    def __init__(self) -> None:
        self.of_graph: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()


_stacks = _ThreadStacks()


def context_stack() -> list[Any]:
    """Return this thread's stack of contexts for the graph that is being built; the innermost is last."""
    return _stacks.of_graph.setdefault(built_graph(), [])


def built_graph() -> Any:
    """Return the graph that is being built: in code of a loop, condition or function, the one that this belongs to."""
    graph = tf.get_default_graph()
    while (outer := getattr(graph, "outer_graph", None)) is not None:
        graph = outer
    return graph


def is_in_control_flow() -> bool:
    """Tell whether what is built now goes into a loop, condition or function of TensorFlow."""
    graph = built_graph()
    return tf.get_default_graph() is not graph or compat.is_in_control_flow(graph)


def add_model_variable(variable: Any) -> None:
    """Add a variable to MODEL_VARIABLES, once.

    Of training towers, the first one adds. What the others have are the same variables, or copies, which are not part
    of the model.

    Args:
        variable: the variable itself.
    """
    tower = get_current_tower_context()
    if tower is not None and tower.is_training and not tower.is_main_tower:
        return
    if not any(known is variable for known in tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)):
        tf.add_to_collection(tf.GraphKeys.MODEL_VARIABLES, variable)
