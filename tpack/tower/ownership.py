"""Ownership of variables by towers, and a record of those that a tower made.

Variables of two towers are paired by the name inside the tower. The order of creation varies, as in a function that
iterates over a set; the unique name that TensorFlow makes depends on all other operations.

``tf.get_variable`` shares variables by their names; ``tf.Variable``, and with it Keras, always makes a new one. Where a
tower shares the variables of another one, such as for prediction, a new variable is looked up by its path: the name
scopes inside the tower, its name, and the number of earlier ones there.
"""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.graphs import is_in_variable_store
from tpack.errors import TowerMismatchError
from tpack.tower.collections import KEEP_ALL, KEEP_UPDATES, KEEP_VARIABLES, CollectionPolicy
from tpack.tower.keras_values import record_owner
from tpack.tower.names import join_scope, near_names
from tpack.tower.per_graph import PerGraph

InitialValue: TypeAlias = tf.Tensor | np.ndarray | Sequence[Any] | complex | Callable[[], Any] | None
"""The initial value of a variable, or a function that returns it."""

Creator: TypeAlias = Callable[..., tf.Variable]
"""The next of TensorFlow's variable creators."""

_MOST_NAMES = 10
"""The most variables that a message names."""


class VariableRecorder:
    """Records the variables created inside its scopes, and always makes them resource variables.

    Args:
        owner: the name of the tower, for messages.
        ownership: the ownership of the variables; by default `Own`.
        unnamed_scope: a name scope that is left out of the variables' names.
        own_scope: a scope that differs between recorders, such as the tower's, and may be anywhere in names.

    Attributes:
        variables: the recorded variables.
        paths: their places in the tower function.
        own_scope: see above.
        may_lack_some: whether the tower may lack variables that the main one has, such as counters of an optimizer that
            updates nothing in it.
    """

    def __init__(
        self, owner: str, ownership: "Ownership | None" = None, *, unnamed_scope: str = "", own_scope: str = ""
    ) -> None:
        self.owner = owner
        self.own_scope = own_scope
        self.may_lack_some = False
        self.variables: list[tf.Variable] = []
        self.paths = VariablePaths()
        self._asked_for: list[tuple[str, str]] = []
        self._ownership = Own() if ownership is None else ownership
        self._unnamed_scope = unnamed_scope
        self._paused = False
        self._pairs: _Pairs | None = None

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Record in this block; may be entered several times."""
        self.paths.begin()
        with tf.variable_creator_scope(self._create):
            yield

    @property
    def is_paused(self) -> bool:
        """Whether new variables are shared by all towers."""
        return self._paused

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing in this block, whose variables are shared by all towers."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def make(self, creator: Creator, kwargs: dict[str, Any]) -> tf.Variable:
        """Make the variable of a creator's arguments, and record it."""
        path = self.paths.path(kwargs.get("name"))
        variable = self._made(creator, kwargs)
        self.record(path, variable)
        self.paths.note(path, variable)
        return variable

    @property
    def asked_for(self) -> list[tuple[str, tf.Variable]]:
        """The variables with the paths of their requests."""
        return [(path, variable) for (path, _), variable in zip(self._asked_for, self.variables, strict=True)]

    def record(self, path: str, variable: tf.Variable) -> None:
        """Record a variable with the path of its request."""
        record_owner(variable)
        self.variables.append(variable)
        self._asked_for.append((path, self.paths.variable_scope))

    def by_name(self) -> dict[str, tf.Variable]:
        """Return the variables by their names inside the tower; the second of a name as ``name:1``."""
        named: dict[str, tf.Variable] = {}
        numbers: Counter[str] = Counter()
        inner_names: dict[str, str] = {}
        for (path, scope), variable in zip(self._asked_for, self.variables, strict=True):
            name = _inner_name(variable, path, scope, inner_names)
            number = numbers[name]
            numbers[name] += 1
            name = f"{name}:{number}" if number else name
            inner_names[_without_empty(variable.op.name)] = name
            named[name] = variable
        return named

    def take(self, kwargs: dict[str, Any], made_by: "VariableRecorder | None" = None) -> tf.Variable:
        """Return the variable of another tower, by default any in the same variable scope, for a creator's arguments.

        Raises:
            TowerMismatchError: There is none, or it has another shape.
        """
        paths = None if made_by is None else made_by.paths
        return self.paths.take(kwargs.get("name"), kwargs.get("initial_value"), self.owner, paths)

    def _create(self, next_creator: Creator, **kwargs: Any) -> tf.Variable:
        if self._paused:
            return self._made(next_creator, kwargs)
        return self._ownership.create(self, next_creator, kwargs)

    def _made(self, creator: Creator, kwargs: dict[str, Any]) -> tf.Variable:
        # Keras variables come without this argument and are resource variables anyway.
        if "use_resource" in kwargs:
            kwargs["use_resource"] = True
        with _without_scope(self._unnamed_scope):
            return creator(**kwargs)


def pair_variables(main: VariableRecorder, copy: VariableRecorder) -> list[tuple[tf.Variable, tf.Variable]]:
    """Return (main, copy) pairs of the main tower's variables, in order, with those of equal names in another tower.

    The pairs are cached until one of the towers has more variables, such as slots.

    Raises:
        TowerMismatchError: The towers' names differ, or a pair differs in shape or dtype.
    """
    sizes = len(main.variables), len(copy.variables)
    if copy._pairs is None or copy._pairs.main is not main or copy._pairs.sizes != sizes:
        copy._pairs = _Pairs(main, sizes, _paired(main, copy))
    return list(copy._pairs.pairs)


class _Pairs(NamedTuple):
    """The pairs of a tower with the main one, while neither has more variables."""

    main: VariableRecorder
    sizes: tuple[int, int]
    pairs: list[tuple[tf.Variable, tf.Variable]]


def _paired(main: VariableRecorder, copy: VariableRecorder) -> list[tuple[tf.Variable, tf.Variable]]:
    mains, copies = main.by_name(), copy.by_name()
    only_main, only_copy = mains.keys() - copies.keys(), copies.keys() - mains.keys()
    extra = _without_own_scope(main, only_main), _without_own_scope(copy, only_copy)
    if extra[0].keys() != extra[1].keys() and not (copy.may_lack_some and extra[1].keys() <= extra[0].keys()):
        raise TowerMismatchError(
            f"{main.owner} and {copy.owner} are paired by the names of their variables, which differ: "
            f"{_only_in(main, mains, extra)}, {_only_in(copy, copies, extra[::-1])}"
        )
    renamed = {name: extra[1].get(plain) for plain, name in extra[0].items()}
    both = [(variable, renamed.get(name, name)) for name, variable in mains.items()]
    pairs = [(variable, copies[name]) for variable, name in both if name is not None]
    for a, b in pairs:
        # Shapes are compared as text: one of unknown rank has no list, and unknown dimensions are never equal.
        if str(a.shape) != str(b.shape) or a.dtype.base_dtype != b.dtype.base_dtype:
            raise TowerMismatchError(
                f"{main.owner} created {a.op.name} with shape {a.shape} and dtype {a.dtype.base_dtype.name} where "
                f"{copy.owner} created {b.op.name} with shape {b.shape} and dtype {b.dtype.base_dtype.name}"
            )
    return pairs


class Ownership(ABC):
    """Creation or sharing of a tower's variables, and the policy for its part of the collections."""

    def __init__(self, policy: CollectionPolicy) -> None:
        self.policy = policy

    @property
    def updates_variables(self) -> bool:
        """Whether layers update variables such as moving averages: in training, once for each set of variables."""
        return self.policy.keeps_updates

    @abstractmethod
    def create(self, recorder: VariableRecorder, creator: Creator, kwargs: dict[str, Any]) -> tf.Variable:
        """Return the variable that the tower of a recorder requests, for the arguments of a creator."""


class Own(Ownership):
    """Ownership of variables that the tower makes: the first one, or one for prediction in a new graph."""

    def __init__(self, policy: CollectionPolicy = KEEP_ALL) -> None:
        super().__init__(policy)

    def create(self, recorder: VariableRecorder, creator: Creator, kwargs: dict[str, Any]) -> tf.Variable:
        """Make it."""
        return recorder.make(creator, kwargs)


class Copies(Ownership):
    """Ownership of copies of the first tower's variables, in LOCAL_VARIABLES in place of GLOBAL_VARIABLES.

    Copies are not saved: a checkpoint holds the main tower's variables and loads into any number of towers.
    """

    def __init__(self) -> None:
        super().__init__(KEEP_UPDATES.with_own_variables())

    def create(self, recorder: VariableRecorder, creator: Creator, kwargs: dict[str, Any]) -> tf.Variable:
        """Make it, as a local one if it would be global."""
        variable = recorder.make(creator, kwargs)
        _move_to_local(variable)
        return variable


class Shared(Ownership):
    """Ownership of local variables alone; others of the same variable scope are shared, and not recorded."""

    def __init__(self, policy: CollectionPolicy = KEEP_VARIABLES) -> None:
        super().__init__(policy)

    def create(self, recorder: VariableRecorder, creator: Creator, kwargs: dict[str, Any]) -> tf.Variable:
        """Take it, or make it if it is a local one."""
        # TensorFlow puts a variable there if the creator's arguments name no collections.
        collections = kwargs.get("collections")
        is_global = collections is None or tf.GraphKeys.GLOBAL_VARIABLES in collections
        return recorder.take(kwargs) if is_global else recorder.make(creator, kwargs)


class MirrorOwnership(Ownership):
    """Ownership of mirrors: all variables, local ones too, are the first tower's, with a component on each device.

    The tower owns its components, so its update operations are kept.
    """

    def __init__(self, main: VariableRecorder) -> None:
        super().__init__(KEEP_UPDATES)
        self._main = main

    def create(self, recorder: VariableRecorder, creator: Creator, kwargs: dict[str, Any]) -> tf.Variable:
        """Take it, and record it."""
        path = recorder.paths.path(kwargs.get("name"))
        variable = recorder.take(kwargs, self._main)
        recorder.record(path, variable)
        return variable


def ownership_of(*, is_training: bool, is_main: bool, has_own_variables: bool, reuse: bool) -> Ownership:
    """Return the ownership for a tower's options, as in `TowerContext`."""
    policy = KEEP_VARIABLES
    if is_training and is_main:
        policy = KEEP_ALL
    elif is_training and has_own_variables:
        policy = KEEP_UPDATES
    if is_training and has_own_variables:
        policy = policy.with_own_variables()
    if reuse:
        return Shared(policy)
    return Copies() if is_training and has_own_variables and not is_main else Own(policy)


class VariablePaths:
    """Places in the tower function of the variables that one tower makes or shares: their names inside the tower.

    Attributes:
        variable_scope: the tower's, which is part of the paths of ``get_variable``.
    """

    def __init__(self) -> None:
        self._made: list[tuple[str, tf.Variable]] = []
        self._taken: Counter[str] = Counter()
        self._name_scope = ""
        self.variable_scope = ""

    def begin(self) -> None:
        """Record the current scopes as the tower's, to which paths are relative."""
        self._name_scope = tf.get_default_graph().get_name_scope()
        self.variable_scope = tf.get_variable_scope().name
        known = _paths.here()
        if not any(paths is self for paths in known):
            known.append(self)

    def path(self, name: str | None) -> str:
        """Return the path of a new variable of this name."""
        current = tf.get_default_graph().get_name_scope()
        if f"{current}/".startswith(f"{self._name_scope}/"):
            current = current[len(self._name_scope) :].lstrip("/")
        return join_scope(current, name or "Variable")

    def note(self, path: str, variable: tf.Variable) -> None:
        """Record a variable that this tower made."""
        self._made.append((path, variable))

    def take(
        self, name: str | None, initial_value: InitialValue, owner: str, made_by: "VariablePaths | None" = None
    ) -> tf.Variable:
        """Return another tower's variable on the path of a new one.

        Args:
            name: the name of the new variable.
            initial_value: its initial value; its shape is compared if it is static.
            owner: this tower, for messages.
            made_by: the paths of the other tower, in which a unique path that differs in numbers, such as ``w_1``, is
                accepted; None for all towers in the same variable scope.

        Raises:
            TowerMismatchError: There is none, or it has another shape. The message lists near names.
        """
        path = self.path(name)
        # A script may call a variable after a tensor, such as the average of a loss, whose name has the tower's scope.
        after_tensor = path.replace(f"{self._name_scope}/", "") if self._name_scope else None
        in_scope = (paths for paths in _paths.here() if paths.variable_scope == self.variable_scope)
        among = in_scope if made_by is None else [made_by]
        towers = [[(where, made) for where, made in paths._made if not is_in_variable_store(made)] for paths in among]
        for made in towers:
            for where in (path, after_tensor, None if made_by is None else self._only_alike(path, made)):
                here = [variable for each, variable in made if each == where]
                if where is not None and self._taken[where] < len(here):
                    variable = here[self._taken[where]]
                    _check_shape(variable, initial_value, owner)
                    self._taken[where] += 1
                    return variable
        raise TowerMismatchError(
            f"{owner} creates the variable {path!r}, which the main training tower did not; use the same variables in "
            "every tower, in training and prediction. Those of tf.Variable and Keras layers are found by name and name "
            f"scopes{near_names(path, [where for made in towers for where, _ in made])}"
        )

    def _only_alike(self, path: str, made: Sequence[tuple[str, tf.Variable]]) -> str | None:
        """Return the only unshared path that differs just in numbers, or None."""
        counts = Counter(where for where, _ in made if _without_numbers(where) == _without_numbers(path))
        left = [where for where, count in counts.items() if self._taken[where] < count]
        return left[0] if len(left) == 1 else None


def _without_numbers(path: str) -> str:
    return re.sub(r"_\d+(?=/|$)", "_#", path)


_paths: PerGraph[list[VariablePaths]] = PerGraph(list)
"""The paths of all towers of a graph."""


@contextmanager
def _without_scope(unnamed: str) -> Iterator[None]:
    """Leave a name scope, but not those inside it."""
    current = tf.get_default_graph().get_name_scope()
    if not unnamed or not f"{current}/".startswith(f"{unnamed}/"):
        yield
        return
    inner = current[len(unnamed) + 1 :]
    with tf.name_scope(f"{inner}/" if inner else None):
        yield


def _inner_name(variable: tf.Variable, path: str, scope: str, known: Mapping[str, str]) -> str:
    """Return the name of a variable inside its tower, from the path of its request and the tower's variable scope.

    ``known`` has the inner names of earlier variables by operation, which are part of others, such as those of slots.
    """
    path, scope = _without_empty(path), _without_empty(scope)
    inside = path[len(scope) + 1 :] if scope and path.startswith(f"{scope}/") else path
    for candidate in (path, inside):
        parts = candidate.split("/")
        for end in range(len(parts) - 1, 0, -1):
            original = known.get("/".join(parts[:end]))
            if original is not None:
                return "/".join([original, *parts[end:]])
    return inside if is_in_variable_store(variable) else path


def _without_empty(path: str) -> str:
    """Return a path without the empty parts of variable scopes without a name."""
    return "/".join(part for part in path.split("/") if part)


def _without_own_scope(recorder: VariableRecorder, names: Iterable[str]) -> dict[str, str]:
    """Return names by their remainder without the tower's scope; ambiguous ones by themselves."""
    scope = f"/{recorder.own_scope}/"
    plain: dict[str, list[str]] = {}
    for name in names:
        left = f"/{name}"
        while recorder.own_scope and scope in left:
            left = left.replace(scope, "/")
        plain.setdefault(left[1:], []).append(name)
    return {name: name for some in plain.values() if len(some) > 1 for name in some} | {
        left: some[0] for left, some in plain.items() if len(some) == 1
    }


def _only_in(recorder: VariableRecorder, named: Mapping[str, tf.Variable], extra: Sequence[Mapping[str, str]]) -> str:
    """Return a message of the variables that another tower lacks, in the order of creation."""
    only = {extra[0][plain] for plain in extra[0].keys() - extra[1].keys()}
    names = [variable.op.name for name, variable in named.items() if name in only]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"only {recorder.owner} has [{', '.join(names[:_MOST_NAMES])}]{more}"


def _move_to_local(variable: tf.Variable) -> None:
    global_variables = variable.graph.get_collection_ref(tf.GraphKeys.GLOBAL_VARIABLES)
    for position in reversed(range(len(global_variables))):
        if global_variables[position] is variable:
            del global_variables[position]
            variable.graph.add_to_collection(tf.GraphKeys.LOCAL_VARIABLES, variable)
            return


def _check_shape(variable: tf.Variable, initial_value: InitialValue, owner: str) -> None:
    if initial_value is None or callable(initial_value):
        return
    shape = initial_value.shape if hasattr(initial_value, "shape") else np.shape(initial_value)
    # A user's own creator may return anything.
    made = getattr(variable, "shape", None)
    if isinstance(made, tf.TensorShape) and not made.is_compatible_with(shape):
        raise TowerMismatchError(
            f"{owner} asks for a variable of shape {tf.TensorShape(shape)} where the main training tower made "
            f"{variable.op.name} of shape {variable.shape}"
        )
