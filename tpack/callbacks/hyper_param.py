"""Hyper-parameters: named values that can be read and set while training runs.

They are attributes of Python objects or variables of the graph, such as a learning rate. Replicated trainers give every
tower own variables: a change in the middle of an epoch must reach all of them. `ScaleWithWorkers` scales with the
number of workers, also when a run resumes with another number.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from numpy.typing import ArrayLike

from tpack.callbacks.base import Callback
from tpack.callbacks.run_op import copies_in_towers
from tpack.compat.runtime import make_callable
from tpack.errors import CallbackError, ConfigError
from tpack.tower.names import op_and_tensor_name
from tpack.types import Trainer
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, check_instance, is_number, mismatch, shown


class HyperParam(ABC):
    """One hyper-parameter; subclasses read and set it."""

    def setup(self, trainer: Trainer) -> None:
        """Prepare for a training; called by a callback's ``setup_graph``."""
        del trainer
        self.setup_graph()

    def setup_graph(self) -> None:  # noqa: B027 (a hook that may be left alone)
        """Add operations to the current graph."""

    @abstractmethod
    def set_value(self, value: ArrayLike) -> None:
        """Set the hyper-parameter."""

    @abstractmethod
    def get_value(self) -> Any:
        """Return the present value."""

    @property
    @abstractmethod
    def readable_name(self) -> str:
        """The name in the log and in statistics."""

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.readable_name})"


@check_arguments
class ObjAttrParam(HyperParam):
    """An attribute of a Python object.

    Args:
        obj: the object.
        attrname: the name of an existing attribute.
        readable_name: the name in the log; the attribute's name unless given.

    Raises:
        CallbackError: the object has no such attribute; the message lists near names.
    """

    def __init__(self, obj: object, attrname: str, readable_name: str | None = None) -> None:
        if not hasattr(obj, attrname):
            near = get_close_matches(attrname, dir(obj))
            hint = f"; near names: {', '.join(near)}" if near else ""
            raise CallbackError(f"an object of {type(obj).__name__} has no attribute {attrname!r}{hint}")
        self._obj = obj
        self._attrname = attrname
        self._readable_name = readable_name or attrname

    def set_value(self, value: ArrayLike) -> None:
        """Set the attribute."""
        setattr(self._obj, self._attrname, value)

    def get_value(self) -> Any:
        """Return the attribute."""
        return getattr(self._obj, self._attrname)

    @property
    def readable_name(self) -> str:
        """The name in the log and in statistics."""
        return self._readable_name


@check_arguments
class GraphVarParam(HyperParam):
    """A global or local variable, set together with its copies in towers before the next step.

    Args:
        name: the variable's name, with or without ``:0``.
        shape: its shape.

    Raises:
        ConfigError: ``name`` is not a valid name.
    """

    def __init__(self, name: str, shape: Sequence[int] = ()) -> None:
        self._name = op_and_tensor_name(name)[0]
        self._shape = tuple(shape)
        self._variable: tf.Variable | None = None
        self._value: tf.Tensor
        self._assignment: tf.Operation
        self._session: tf.Session | None = None
        self._assign: Callable[..., object]

    def setup(self, trainer: Trainer) -> None:
        """Find the variable and its copies in towers; raise as `setup_graph` does."""
        variable = self._find_variable()
        copies = [copy for main, copy in copies_in_towers(trainer) if main is variable]
        self._make_assignment([variable, *copies])

    def setup_graph(self) -> None:
        """Find the variable only.

        Raises:
            CallbackError: the graph has no such variable, with near names, or its shape differs.
        """
        self._make_assignment([self._find_variable()])

    def _find_variable(self) -> tf.Variable:
        known = {variable.op.name: variable for variable in [*tf.global_variables(), *tf.local_variables()]}
        variable = known.get(self._name)
        if variable is None:
            raise CallbackError(f"the graph has no variable {self._name!r}; {_hint(self._name, known)}")
        if not variable.shape.is_compatible_with(self._shape):
            raise CallbackError(f"variable {self._name!r} has shape {variable.shape}: expected {self._shape}")
        return variable

    def _make_assignment(self, variables: Sequence[tf.Variable]) -> None:
        self._variable = variables[0]
        with tf.name_scope(None, "SetHyperParam"):
            self._value = tf.placeholder(self._variable.dtype.base_dtype, self._shape, name="value")
            assignments = [variable.assign(self._value, read_value=False) for variable in variables]
            self._assignment = tf.group(*assignments, name="assign")

    def set_value(self, value: ArrayLike) -> None:
        """Set the variable and its copies.

        Raises:
            CallbackError: ``value`` has another shape, or there is no session yet.
        """
        session = self._current_session()
        if np.shape(value) != self._shape:
            raise CallbackError(f"{self} got value={shown(value)}: expected the shape {self._shape}")
        if session is not self._session:
            # Compiled, since a schedule may set a value at every step.
            self._assign = make_callable(session, feeds=[self._value], targets=[self._assignment])
            self._session = session
        self._assign(np.asarray(value, self._value.dtype.as_numpy_dtype))

    def get_value(self) -> Any:
        """Return the variable's value, a numpy scalar or array.

        Raises:
            CallbackError: there is no session yet.
        """
        return self._current_session().run(self._variable)

    def _current_session(self) -> tf.Session:
        session = tf.get_default_session()
        if session is None or self._variable is None:
            raise CallbackError(f"{self} got no session: expected a use while its training runs")
        return session

    @property
    def readable_name(self) -> str:
        """The variable's name."""
        return self._name


def _hint(name: str, known: Mapping[str, tf.Variable]) -> str:
    near = get_close_matches(name, known, n=5, cutoff=0.4)
    if near:
        return f"near names: {', '.join(near)}"
    trained = {variable.op.name for variable in tf.trainable_variables()}
    scalars = [
        key
        for key, variable in known.items()
        if key not in trained and variable.shape.rank == 0 and variable.dtype.base_dtype.is_floating
    ]
    # Users' variables first: optimizers and moving averages put theirs into scopes.
    scalars.sort(key=lambda key: (key.count("/"), key))
    return f"scalars that are not trained: {', '.join(scalars[:5])}" if scalars else f"there are {len(known)} variables"


_RULES: dict[str, Callable[[float], float]] = {"linear": float, "sqrt": math.sqrt}


@check_arguments
class ScaleWithWorkers(Callback):
    """Scale a hyper-parameter, such as a learning rate, by the number of workers.

    The script's value holds for ``base_workers``; with W workers it is multiplied by ``rule(W / base_workers)`` before
    the first step. A run that resumes with another number of workers rescales the present value; a variable's scale is
    saved. Callbacks that set the hyper-parameter do so in units of ``base_workers`` if they get `param`, and unscaled
    by its name.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        rule: ``"linear"`` (W times the samples, W times the rate), ``"sqrt"``, or a function of the ratio W /
            base_workers.
        base_workers: the number of workers that the value is meant for.

    Attributes:
        param: the hyper-parameter in units of ``base_workers``.

    Creates:
        A scalar variable ``<name>/scale_of_workers``, in GLOBAL_VARIABLES, if the hyper-parameter is a variable.

    Raises:
        ConfigError: The rule is unknown, or its result is not positive and finite; ``base_workers`` is below 1.

    Example:
        ``rate = ScaleWithWorkers("learning_rate", "linear", base_workers=4)`` and then
        ``callbacks=[rate, ScheduledHyperParamSetter(rate.param, [(1, 0.1), (30, 0.01)])]``
    """

    _chief_only = False
    adds_variables = True

    def __init__(self, param: HyperParam | str, rule: str | Callable[[float], float], *, base_workers: int = 1) -> None:
        self._inner = GraphVarParam(param) if isinstance(param, str) else param
        check_instance(self, "param", self._inner, HyperParam, "a HyperParam or the name of a variable")
        function = rule if callable(rule) else _RULES.get(rule)
        if function is None:
            raise ConfigError(mismatch(self, "rule", rule, "'linear', 'sqrt' or a function"))
        self._rule = function
        self._base_workers = check_count(self, "base_workers", base_workers)
        self.param: HyperParam = _ScaledParam(self)
        self._saved_scale: GraphVarParam | None = None
        self._scale: float | None = None

    @property
    def inner(self) -> HyperParam:
        """The scaled hyper-parameter."""
        return self._inner

    def scale(self) -> float:
        """Return the scale, after applying it on the first call.

        Raises:
            CallbackError: The callback has no trainer.
            ConfigError: The rule's result is not positive and finite.
        """
        if self._scale is None:
            peers = self.trainer.peers
            ratio = (1 if peers is None else peers.size) / self._base_workers
            scale = self._rule(ratio)
            if not is_number(scale) or not 0 < scale < math.inf:
                raise ConfigError(f"the rule of {self} returned {shown(scale)} for {ratio:g}: expected a number > 0")
            self._scale = float(scale)
            former = 1.0 if self._saved_scale is None else float(self._saved_scale.get_value())
            # The saved scale has fewer digits.
            if not math.isclose(former, self._scale, rel_tol=1e-6):
                self._inner.set_value(np.asarray(self._inner.get_value()) * (self._scale / former))
                logger.info(f"{self._inner.readable_name} is scaled by {self._scale / former:.6g} ({self}).")
            if self._saved_scale is not None:
                self._saved_scale.set_value(self._scale)
        return self._scale

    def _setup_graph(self) -> None:
        self._inner.setup(self.trainer)
        if isinstance(self._inner, GraphVarParam):
            name = f"{self._inner.readable_name}/scale_of_workers"
            tf.get_variable(name, initializer=1.0, trainable=False, use_resource=True)
            self._saved_scale = GraphVarParam(name)
            self._saved_scale.setup_graph()

    def _before_train(self) -> None:
        self.scale()

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._inner.readable_name})"


class _ScaledParam(HyperParam):
    """A hyper-parameter in units of the base number of workers, scaled by its owner."""

    def __init__(self, owner: ScaleWithWorkers) -> None:
        self._owner = owner

    def setup_graph(self) -> None:
        if self._owner._trainer is None:
            raise CallbackError(f"{self} is used without {self._owner}: expected it among the callbacks")

    def set_value(self, value: ArrayLike) -> None:
        self._owner.inner.set_value(np.asarray(value) * self._owner.scale())

    def get_value(self) -> Any:
        # The scale first: it changes the value when it is applied.
        scale = self._owner.scale()
        return self._owner.inner.get_value() / scale

    @property
    def readable_name(self) -> str:
        # The hyper-parameter's own name: the log and statistics show the unscaled value.
        return self._owner.inner.readable_name
