"""Initial values of a new session's variables from checkpoints and numpy arrays.

A ``SessionInit`` works in two phases. ``_setup_graph`` reads and checks everything and changes nothing; ``_run_init``
then assigns. A chain runs the first phase of all members first, so an error leaves the session unchanged.

Names are matched against the graph's GLOBAL_VARIABLES; in checkpoints, parts of a partitioned variable have the name of
the whole. Variables without a value and values without a variable are logged, since either may be a mistake. No match
at all is logged as an error, as scripts expect that go on, and raised with ``must_match``, as tpack's own commands do.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError, ConfigError, InputError, WrongTypeError
from tpack.tower.names import join_scope
from tpack.utils import logger
from tpack.utils.lazy import LazyModule
from tpack.utils.renames import on_unknown_name
from tpack.utils.validation import check_arguments, check_instance, check_instances, check_path, mismatch

__getattr__ = on_unknown_name(__name__)

__all__ = [
    "ChainInit",
    "DictRestore",
    "JustCurrentSession",
    "SaverRestore",
    "SaverRestoreRelaxed",
    "SessionInit",
    "SmartInit",
    "get_model_loader",
]

# Loaded to restore values.
_checkpoint = LazyModule("tpack.tfutils.checkpoint")
_variable_values = LazyModule("tpack.tfutils.variable_values")
_npz = LazyModule("tpack.utils.formats.npz")

# What trainers, optimizers and the scaling of costs count with, in whatever scope.
_COUNTERS = re.compile(
    r"(.*/)?(global_step|learning_rate|beta[12]_power|num_updates|loss_scale/(scale|finite_steps|skipped_steps))(_\d+)?"
)


@check_arguments
def SmartInit(  # noqa: N802 (scripts use it like a class)
    obj: "SessionInit | Mapping[str, Any] | str | os.PathLike[str] | Sequence[Any] | None",
    *,
    ignore_mismatch: bool = False,
    must_match: bool = False,
) -> "SessionInit":
    """Return the SessionInit that ``obj`` stands for.

    Args:
        obj: None or an empty string (keep the initial values), a checkpoint (prefix, file or directory), the path of an
            ``.npz`` file, a dict of arrays, a SessionInit, or a list of these.
        ignore_mismatch: cast and reshape values where possible and skip the others, with a warning instead of an error.
        must_match: raise a CheckpointError, and not log an error, if no name is a variable of the graph.

    Raises:
        ConfigError: It is none of these.
        CheckpointError: A file is missing or damaged.
    """
    if obj is None or (isinstance(obj, str) and not obj):
        return JustCurrentSession()
    if isinstance(obj, SessionInit):
        return obj
    if isinstance(obj, list | tuple):
        return ChainInit([SmartInit(item, ignore_mismatch=ignore_mismatch, must_match=must_match) for item in obj])
    if isinstance(obj, Mapping):
        return DictRestore(obj, ignore_mismatch, must_match=must_match)
    if isinstance(obj, str | os.PathLike):
        return _from_path(os.path.expanduser(os.fspath(obj)), ignore_mismatch, must_match)
    expected = "the path of a checkpoint or .npz file, a dict, a SessionInit, a list of these or None"
    raise WrongTypeError(mismatch("SmartInit", "obj", obj, expected))


get_model_loader = SmartInit


class SessionInit:
    """Gives variables of a session their first values, after the initialisers; subclasses override the two phases."""

    def init(self, sess: tf.Session) -> None:
        """Read and check, then change a session whose variables are initialised; its graph may be finalized."""
        with sess.graph.as_default():
            self._setup_graph()
            self._run_init(sess)

    def _setup_graph(self) -> None:
        """Read and check the values for the variables of the current graph, and change nothing."""

    def _run_init(self, sess: tf.Session) -> None:
        """Change the session's variables."""


def check_session_init(owner: object, session_init: SessionInit | None) -> None:
    """Raise a WrongTypeError for an argument that is neither a `SessionInit` nor None."""
    if session_init is not None:
        check_instance(owner, "session_init", session_init, SessionInit, "a SessionInit; SmartInit makes one")


class JustCurrentSession(SessionInit):
    """Leave the session as its initialisers made it."""


@check_arguments
class ChainInit(SessionInit):
    """Several initialisations in order; the last one that has a variable counts.

    Args:
        sess_inits: the members.

    Raises:
        ConfigError: A member is not a SessionInit.
    """

    def __init__(self, sess_inits: Iterable[SessionInit]) -> None:
        expected = "a list of SessionInit; SmartInit takes other things"
        self.inits = check_instances(self, "sess_inits", sess_inits, SessionInit, expected=expected)

    def _setup_graph(self) -> None:
        for member in self.inits:
            member._setup_graph()

    def _run_init(self, sess: tf.Session) -> None:
        for member in self.inits:
            member._run_init(sess)


class NamedValuesInit(SessionInit):
    """The common part of restoring from a checkpoint and from arrays.

    Args:
        source: the origin of the values, for messages.
        cast: see ``fit_values``.
        skip_mismatch: see ``fit_values``.
        must_match: see `SmartInit`.
    """

    def __init__(self, source: str, *, cast: bool, skip_mismatch: bool, must_match: bool) -> None:
        self.source = source
        self._cast = cast
        self._skip_mismatch = skip_mismatch
        self._must_match = must_match
        self._pairs: list[tuple[tf.Variable, np.ndarray]] = []

    def _names(self) -> Iterable[str]:
        """Return the names of the values."""
        raise NotImplementedError

    def _value(self, name: str) -> np.ndarray:
        """Return the numpy value for one of these names."""
        raise NotImplementedError

    def _setup_graph(self) -> None:
        names = set(self._names())
        variables: dict[str, list[tf.Variable]] = {}
        for variable in tf.global_variables():
            variables.setdefault(_saved_as(variable, names), []).append(variable)
        self._report(names, set(variables))
        pairs: list[tuple[tf.Variable, np.ndarray]] = []
        for name in sorted(names & variables.keys()):
            value = self._value(name)
            pairs += [(variable, _part_of(value, variable, name)) for variable in variables[name]]
        options = {"cast": self._cast, "skip_mismatch": self._skip_mismatch, "source": self.source}
        self._pairs = _variable_values.fit_values(pairs, **options)

    def _run_init(self, sess: tf.Session) -> None:
        pairs, self._pairs = self._pairs, []
        _variable_values.assign_values(sess, pairs)
        logger.info(f"Restored {len(pairs)} variable(s) from {self.source}")

    def _report(self, saved: set[str], in_graph: set[str]) -> None:
        if in_graph - saved:
            logger.warning(f"Only in the graph, so not restored: {', '.join(sorted(in_graph - saved))}")
        unused = saved - in_graph
        # Counters of steps, and state of an optimizer or average for a variable of the graph, are not the model's.
        of_training = {name for name in unused if name.rpartition("/")[0] in in_graph or _COUNTERS.fullmatch(name)}
        if of_training:
            logger.info(f"{len(of_training)} value(s) in {self.source} that another training needed are not used")
        if unused - of_training:
            logger.warning(f"Only in {self.source}, so not used: {', '.join(sorted(unused - of_training))}")
        if saved and not saved & in_graph:
            both = f"it has {_some(saved)}; the graph has {_some(in_graph)}"
            message = f"no name of {len(saved)} in {self.source} is a variable of the graph: {both}"
            if self._must_match:
                raise CheckpointError(message)
            logger.error(f"NOTHING IS RESTORED: {message}; use must_match=True to raise this")


@check_arguments
class SaverRestore(NamedValuesInit):
    """Restore from a checkpoint that ``tf.train.Saver`` or ``ModelSaver`` wrote; dtypes and shapes must be the same.

    Args:
        model_path: a prefix, one of the checkpoint's files, or a directory; see ``resolve_checkpoint``.
        prefix: the checkpoint's ``W`` goes to the graph's ``prefix/W``.
        ignore: names in the checkpoint that are not restored.
        must_match: see `SmartInit`.

    Raises:
        ConfigError: An argument is of the wrong type, or the path empty.
        CheckpointError: There is no such checkpoint, or its index is damaged.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str],
        prefix: str | None = None,
        ignore: Iterable[str] = (),
        *,
        must_match: bool = False,
    ) -> None:
        path = _checkpoint.resolve_checkpoint(check_path(self, "model_path", model_path))
        ignored = check_instances(self, "ignore", ignore, str)
        super().__init__(path, cast=False, skip_mismatch=False, must_match=must_match)
        self.path = path
        self.prefix = (prefix or "").rstrip("/")
        self.ignore = frozenset(_op_name(name) for name in ignored)
        self._reader = _checkpoint.CheckpointReader(path)
        saved = [name for name in self._reader.shapes if name not in self.ignore]
        self._saved_names = {join_scope(self.prefix, name): name for name in saved}

    def _names(self) -> Iterable[str]:
        return self._saved_names

    def _value(self, name: str) -> Any:
        return self._reader.read(self._saved_names[name])


@check_arguments
class SaverRestoreRelaxed(SaverRestore):
    """Restore the values of a checkpoint that fit, cast and reshaped where possible; skip the others with a warning.

    Args:
        model_path: as for ``SaverRestore``.
        prefix: as for ``SaverRestore``.
        ignore: as for ``SaverRestore``.
        must_match: as for ``SaverRestore``.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str],
        prefix: str | None = None,
        ignore: Iterable[str] = (),
        *,
        must_match: bool = False,
    ) -> None:
        super().__init__(model_path, prefix, ignore, must_match=must_match)
        self._cast = self._skip_mismatch = True


@check_arguments
class DictRestore(NamedValuesInit):
    """Assign arrays from a dict; floats are cast to the variable's precision, integers to its size if it can hold them.

    Args:
        variable_dict: variable name, with or without ``:0``, to value.
        ignore_mismatch: reshape values where possible, skip the others, and warn.
        must_match: see `SmartInit`.

    Raises:
        ConfigError: It is not a dict of names, or has a name twice.
    """

    def __init__(
        self, variable_dict: Mapping[str, Any], ignore_mismatch: bool = False, *, must_match: bool = False
    ) -> None:
        super().__init__("the dict", cast=True, skip_mismatch=ignore_mismatch, must_match=must_match)
        if not all(isinstance(name, str) for name in variable_dict):
            expected = "a dict from variable names to values"
            raise WrongTypeError(mismatch(self, "variable_dict", variable_dict, expected))
        self._values = {_op_name(name): np.asarray(value) for name, value in variable_dict.items()}
        if len(self._values) < len(variable_dict):
            raise ConfigError(mismatch(self, "variable_dict", variable_dict, "no name both with and without ':0'"))

    def _names(self) -> Iterable[str]:
        return self._values

    def _value(self, name: str) -> np.ndarray:
        return self._values[name]


def load_npz(path: str, max_bytes: int | None = None) -> dict[str, np.ndarray]:
    """Return the arrays in an ``.npz`` file by name; it is never unpickled.

    Raises:
        CheckpointError: As `read_npz` raises an InputError.
    """
    limit = {} if max_bytes is None else {"max_bytes": max_bytes}
    try:
        values: dict[str, np.ndarray] = _npz.read_npz(path, **limit)
    except InputError as error:
        raise CheckpointError(str(error)) from error
    return values


def _from_path(path: str, ignore_mismatch: bool, must_match: bool) -> SessionInit:
    if path.endswith(".npz"):
        restore = DictRestore(load_npz(_checkpoint.fetched(path)), ignore_mismatch, must_match=must_match)
        restore.source = path
        return restore
    return (SaverRestoreRelaxed if ignore_mismatch else SaverRestore)(path, must_match=must_match)


def _saved_as(variable: tf.Variable, names: set[str]) -> str:
    """Return the saved name of a variable: of a part, mostly that of the whole."""
    whole = getattr(variable, "_save_slice_info", None)
    return variable.op.name if whole is None or variable.op.name in names else str(whole.full_name)


def _part_of(value: np.ndarray, variable: tf.Variable, name: str) -> np.ndarray:
    """Return the part of a saved value that belongs to a variable cut by a partitioner, or the value itself."""
    if name == variable.op.name:
        return value
    whole = variable._save_slice_info
    if list(value.shape) != list(whole.full_shape):
        return value
    ends = np.add(whole.var_offset, whole.var_shape)
    return value[tuple(map(slice, whole.var_offset, ends))]


def _op_name(name: str) -> str:
    return name.removesuffix(":0")


def _some(names: set[str]) -> str:
    shown = sorted(names)[:5]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "") if shown else "none"
