"""What a hyper-parameter is: something with a name that can be read and set while training runs.

It is an attribute of a Python object, or a variable of the graph such as a learning rate. A replicated trainer gives
every tower variables of its own and keeps them equal by applying the same updates to all: who sets one of them in the
middle of an epoch has to set all.

Where several workers train, a step has more samples, and a learning rate is to follow: by which rule, only the user
knows. `ScaleWithWorkers` holds to it, also when another number of workers goes on with a run.
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

from tpack.callbacks.base import Callback, training_towers
from tpack.compat import make_callable
from tpack.errors import CallbackError, ConfigError
from tpack.tower.names import op_and_tensor_name
from tpack.tower.ownership import pair_variables
from tpack.types import Trainer
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, check_instance, is_number, shown


class HyperParam(ABC):
    """One hyper-parameter; a subclass says how to read and set it."""

    def setup(self, trainer: Trainer) -> None:
        """Get ready for a training; a callback calls this in its ``setup_graph``."""
        del trainer
        self.setup_graph()

    def setup_graph(self) -> None:  # noqa: B027 (a hook that may be left alone)
        """Add what is needed to the current graph."""

    @abstractmethod
    def set_value(self, value: ArrayLike) -> None:
        """Set the hyper-parameter."""

    @abstractmethod
    def get_value(self) -> Any:
        """Return what the hyper-parameter is now."""

    @property
    @abstractmethod
    def readable_name(self) -> str:
        """What to call it in the log and among the statistics."""

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.readable_name})"


@check_arguments
class ObjAttrParam(HyperParam):
    """An attribute of a Python object.

    Args:
        obj: the object.
        attrname: the name of the attribute, which the object must have.
        readable_name: what to call it; the attribute's name unless given.

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
        """What to call it in the log and among the statistics."""
        return self._readable_name


@check_arguments
class GraphVarParam(HyperParam):
    """A global or local variable; where towers have copies of it, these are set with it, before the next step.

    Args:
        name: the variable's name, with or without ``:0``.
        shape: its shape.

    Raises:
        ConfigError: ``name`` cannot be one.
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
        """Find the variable and the towers' copies of it.

        Raises:
            CallbackError: as `setup_graph` does.
        """
        variable = self._find_variable()
        self._make_assignment([variable, *_copies_of(trainer, variable)])

    def setup_graph(self) -> None:
        """Find the variable, without looking for copies.

        Raises:
            CallbackError: the graph has no such variable, which lists near names, or it is of another shape.
        """
        self._make_assignment([self._find_variable()])

    def _find_variable(self) -> tf.Variable:
        known = {variable.op.name: variable for variable in [*tf.global_variables(), *tf.local_variables()]}
        variable = known.get(self._name)
        if variable is None:
            raise CallbackError(f"the graph has no variable {self._name!r} to be set; {_hint(self._name, known)}")
        if not variable.shape.is_compatible_with(self._shape):
            raise CallbackError(f"variable {self._name!r} has shape {variable.shape}, expected {self._shape}")
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
            CallbackError: ``value`` is not of the variable's shape, or there is no session yet.
        """
        session = self._current_session()
        if np.shape(value) != self._shape:
            raise CallbackError(f"{self} wants a value of shape {self._shape}, got {value!r}")
        if session is not self._session:
            # A schedule may set a value at every step, so the assignment is compiled.
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
            raise CallbackError(f"{self} can be read and set while its training runs, in the default session only")
        return session

    @property
    def readable_name(self) -> str:
        """The variable's name."""
        return self._name


def _hint(name: str, known: Mapping[str, tf.Variable]) -> str:
    """Return which of the variables can be meant by a name that none of them has."""
    near = get_close_matches(name, known, n=5, cutoff=0.4)
    if near:
        return f"near names: {', '.join(near)}"
    trained = {variable.op.name for variable in tf.trainable_variables()}
    scalars = [
        key
        for key, variable in known.items()
        if key not in trained and variable.shape.rank == 0 and variable.dtype.base_dtype.is_floating
    ]
    # What a user makes lies outside of the scopes that optimizers and moving averages make.
    scalars.sort(key=lambda key: (key.count("/"), key))
    return f"scalars that are not trained: {', '.join(scalars[:5])}" if scalars else f"there are {len(known)} variables"


_RULES: dict[str, Callable[[float], float]] = {"linear": float, "sqrt": math.sqrt}


@check_arguments
class ScaleWithWorkers(Callback):
    """Scale a hyper-parameter, such as a learning rate, by the number of workers.

    The value that the script gives is meant for ``base_workers``; with W workers it is that times ``rule(W /
    base_workers)``, from before the first step on. A run that is resumed by another number of workers goes on with what
    the hyper-parameter was, scaled anew. By how much a variable is scaled is saved with it.

    Callbacks that set the hyper-parameter speak of ``base_workers`` too if they are given `param` in its place. One
    that is given its name sets it as it says, unscaled.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        rule: ``"linear"``: W times the samples, W times the rate; ``"sqrt"``: its square root; or a function of the
            ratio W / base_workers.
        base_workers: the number of workers that the value is meant for.

    Attributes:
        param: the hyper-parameter as it is for ``base_workers``.

    Creates:
        A scalar variable ``<name>/scale_of_workers``, in GLOBAL_VARIABLES, if the hyper-parameter is a variable.

    Raises:
        ConfigError: The rule is none of these, or it returns what is not positive and finite; there is no worker.

    Example:
        ``rate = ScaleWithWorkers("learning_rate", "linear", base_workers=4)`` and then
        ``callbacks=[rate, ScheduledHyperParamSetter(rate.param, [(1, 0.1), (30, 0.01)])]``
    """

    _chief_only = False
    adds_variables = True

    def __init__(
        self,
        param: HyperParam | str,
        rule: str | Callable[[float], float],
        *,
        base_workers: int = 1,
    ) -> None:
        self._inner = GraphVarParam(param) if isinstance(param, str) else param
        check_instance(self, "param", self._inner, HyperParam, "a HyperParam or the name of a variable")
        function = rule if callable(rule) else _RULES.get(rule)
        if function is None:
            raise ConfigError(f"ScaleWithWorkers got rule={shown(rule)}: expected 'linear', 'sqrt' or a function")
        self._rule = function
        self._base_workers = check_count(self, "base_workers", base_workers)
        self.param: HyperParam = _ScaledParam(self)
        self._saved_scale: GraphVarParam | None = None
        self._scale: float | None = None

    @property
    def inner(self) -> HyperParam:
        """The hyper-parameter as it is."""
        return self._inner

    def scale(self) -> float:
        """Return by how much the hyper-parameter is scaled, after scaling it if nobody has done so in this run.

        Raises:
            CallbackError: The callback is in no training.
            ConfigError: The rule returned what is not positive and finite.
        """
        if self._scale is None:
            self._scale = self._wanted_scale()
            former = 1.0 if self._saved_scale is None else float(self._saved_scale.get_value())
            # What is saved has fewer digits.
            if not math.isclose(former, self._scale, rel_tol=1e-6):
                value = np.asarray(self._inner.get_value())
                self._inner.set_value(value * (self._scale / former))
                logger.info(f"{self._inner.readable_name} is scaled by {self._scale / former:.6g}, as {self} says.")
            if self._saved_scale is not None:
                self._saved_scale.set_value(self._scale)
        return self._scale

    def _wanted_scale(self) -> float:
        peers = self.trainer.peers
        ratio = (1 if peers is None else peers.size) / self._base_workers
        scale = self._rule(ratio)
        if not is_number(scale) or not 0 < scale < math.inf:
            raise ConfigError(f"the rule of {self} returned {shown(scale)} for {ratio:g}: expected a positive number")
        return float(scale)

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
    """A hyper-parameter as it is for the base number of workers.

    Args:
        owner: scales it.
    """

    def __init__(self, owner: ScaleWithWorkers) -> None:
        self._owner = owner

    def setup_graph(self) -> None:
        """Find out whether somebody scales it.

        Raises:
            CallbackError: The one who does is not among the callbacks.
        """
        if self._owner._trainer is None:
            raise CallbackError(f"{self} is given to a callback, and {self._owner} is not: it has to be there too")

    def set_value(self, value: ArrayLike) -> None:
        """Set the hyper-parameter to a scaled value."""
        self._owner.inner.set_value(np.asarray(value) * self._owner.scale())

    def get_value(self) -> Any:
        """Return what the hyper-parameter is, without the scale."""
        scale = self._owner.scale()
        return self._owner.inner.get_value() / scale

    @property
    def readable_name(self) -> str:
        """The name of the hyper-parameter itself: the log and the statistics say what it is for ``base_workers``."""
        return self._owner.inner.readable_name


def _copies_of(trainer: Trainer, variable: tf.Variable) -> list[tf.Variable]:
    """Return the copies of a main tower's variable, one for each other tower that has its own; often none.

    Args:
        trainer: whose towers are looked at. One without towers has no copies.
        variable: any variable of the graph.
    """
    return [copy for main, copy in copies_in_towers(trainer) if main is variable]


def copies_in_towers(trainer: Trainer) -> list[tuple[tf.Variable, tf.Variable]]:
    """Return each variable of a trainer's main tower with its copy in each other tower that has its own; often none."""
    contexts = [handle.context for handle in training_towers(trainer)]
    others = [other for other in contexts[1:] if other.has_own_variables]
    return [pair for other in others for pair in pair_variables(contexts[0].recorder, other.recorder)]
