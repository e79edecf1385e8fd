"""Values of variables in checkpoints of TensorFlow, ``.npz`` files of numpy, and sessions."""

import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import IO

import numpy as np
import tensorflow.compat.v1 as tf
from numpy.typing import ArrayLike

from tpack.errors import CheckpointError, ConfigError, WrongTypeError
from tpack.tfutils.checkpoint import CheckpointReader, fetched, reason_of, resolve_checkpoint
from tpack.tfutils.sessinit import load_npz
from tpack.tfutils.variable_values import assign_values, fit_values
from tpack.tower.names import near_names
from tpack.utils import logger
from tpack.utils.fs import atomic_write
from tpack.utils.renames import on_unknown_name
from tpack.utils.validation import check_instance, check_path, mismatch

__getattr__ = on_unknown_name(__name__)

__all__ = [
    "SessionUpdate",
    "dump_session_params",
    "get_checkpoint_path",
    "get_savename_from_varname",
    "is_training_name",
    "load_checkpoint_vars",
    "load_chkpt_vars",
    "save_checkpoint_vars",
    "save_chkpt_vars",
]
# How slots and counters of TensorFlow's optimizers end, and tpack's own.
_TRAINING_SUFFIXES = (
    "/Adam", "/Adam_1", "/Momentum", "/RMSProp", "/RMSProp_1", "/RMSProp_2", "/Adagrad", "/Adadelta", "/Adadelta_1",
    "/AdamW", "/AdamW_1", "/LAMB", "/LAMB_1", "/LARS", "/Lion",
    "/Ftrl", "/Ftrl_1", "/ExponentialMovingAverage", "/AccumGrad", "/AccumGrad_touched",
)  # fmt: skip
_TRAINING_NAMES = ("global_step", "learning_rate", "beta1_power", "beta2_power", "AccumGrad_counter")
_TRAINING_SCOPES = ("apply_gradients/", "EMA/", "queue", "optimizer/")


class SessionUpdate:
    """Assign arrays to variables of a session by name.

    Args:
        sess: the session.
        vars_to_update: the variables that may be assigned to.
        ignore_mismatch: reshape values where possible, skip the others, and warn, instead of an error.
    """

    def __init__(self, sess: tf.Session, vars_to_update: Sequence[tf.Variable], ignore_mismatch: bool = False) -> None:
        self._session = sess
        self._variables = {variable.op.name: variable for variable in vars_to_update}
        self._ignore_mismatch = ignore_mismatch

    def update(self, prms: Mapping[str, ArrayLike]) -> None:
        """Assign values by variable name, with or without ``:0``; if one does not fit, none is assigned.

        Raises:
            ConfigError: A name is not one of the variables; near names are listed.
            CheckpointError: Values do not fit their variables. The message is a table of all of them.
        """
        pairs = [(self._find(name), np.asarray(value)) for name, value in prms.items()]
        fitting = fit_values(pairs, cast=True, skip_mismatch=self._ignore_mismatch, source="the update")
        assign_values(self._session, fitting)

    def _find(self, name: str) -> tf.Variable:
        name = name.removesuffix(":0")
        if name not in self._variables:
            raise ConfigError(f"SessionUpdate has no variable {name!r} to update{near_names(name, self._variables)}")
        return self._variables[name]


def load_checkpoint_vars(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> dict[str, np.ndarray]:
    """Return all values in a checkpoint (see ``resolve_checkpoint``) or an ``.npz`` file, by name without ``:0``.

    Args:
        path: the checkpoint or file, on this machine or a URL.
        max_bytes: the limit of the decompressed arrays of an ``.npz`` file; None means 4 GiB, or the file's size.

    Raises:
        ConfigError: It is no path.
        CheckpointError: The file is missing, damaged or too large.
    """
    path = os.path.expanduser(check_path("load_checkpoint_vars", "path", path))
    if path.endswith(".npz"):
        return {name.removesuffix(":0"): value for name, value in load_npz(fetched(path), max_bytes).items()}
    reader = CheckpointReader(resolve_checkpoint(path))
    # A scalar string, such as the object graph in checkpoints of TensorFlow 2, is read as bytes and not as an array.
    return {name: np.asarray(reader.read(name)) for name in sorted(reader.shapes)}


load_chkpt_vars = load_checkpoint_vars


def save_checkpoint_vars(dic: Mapping[str, ArrayLike], path: str | os.PathLike[str]) -> None:
    """Write values as an ``.npz`` file, if the path ends like that, or as a checkpoint.

    Args:
        dic: variable name, with or without ``:0``, to array.
        path: the file, or the checkpoint's prefix, wherever TensorFlow can write. Its directory must exist.

    Raises:
        ConfigError: It is not a dict of names with arrays, has a name twice, or an ``.npz`` file is not on this
            machine.
        CheckpointError: The checkpoint cannot be written.
    """
    owner = "save_checkpoint_vars"
    check_instance(owner, "dic", dic, Mapping, "a dict of arrays by name; use save_checkpoint_vars(dic, path)")
    path = check_path(owner, "path", path)
    # Numpy's files hold objects as pickles.
    kinds = () if path.endswith(".npz") else (str, bytes)
    values = {str(name).removesuffix(":0"): _as_array(owner, name, value, kinds) for name, value in dic.items()}
    if len(values) < len(dic) or not all(isinstance(name, str) for name in dic):
        raise ConfigError(mismatch(owner, "dic", dic, "a dict by name, none also with ':0'"))
    if path.endswith(".npz"):
        with atomic_write(path, "wb") as file:
            _write_npz(file, values)
        return
    # Whoever makes the first session with GPUs decides about their memory: that is the training's.
    config = tf.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        placeholders = {name: tf.placeholder(value.dtype, value.shape) for name, value in values.items()}
        names, slices, tensors = list(values), [""] * len(values), list(placeholders.values())
        save = tf.raw_ops.SaveV2(prefix=path, tensor_names=names, shape_and_slices=slices, tensors=tensors)
        try:
            session.run(save, {placeholders[name]: value for name, value in values.items()})
        except tf.errors.OpError as error:
            raise CheckpointError(f"cannot write checkpoint {path}: {reason_of(error)}") from error


def _as_array(owner: str, name: object, value: object, kinds: tuple[type, ...]) -> np.ndarray:
    """Return a value to write as an array; one of objects only if these are of certain kinds."""
    expected, use = "an array of numbers or text", "session.run(variable) for the value of a variable"
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise WrongTypeError(mismatch(owner, f"dic[{name!r}]", value, expected, use)) from error
    if array.dtype.hasobject and not all(isinstance(item, kinds) for item in array.flat):
        raise WrongTypeError(mismatch(owner, f"dic[{name!r}]", value, expected, use))
    return array


save_chkpt_vars = save_checkpoint_vars


def dump_session_params(path: str | os.PathLike[str]) -> None:
    """Write what `model_values` returns for the default session to an ``.npz`` file or a checkpoint.

    Args:
        path: as for ``save_checkpoint_vars``.

    Raises:
        ConfigError: There is no default session, or the path is none.
    """
    path = check_path("dump_session_params", "path", path)
    session = tf.get_default_session()
    if session is None:
        raise ConfigError("dump_session_params needs a default session: use `with session.as_default()`")
    values = model_values(session)
    save_checkpoint_vars(values, path)
    logger.info(f"Wrote {len(values)} variable(s) to {path}")


def model_values(session: tf.Session) -> dict[str, np.ndarray]:
    """Return the values of a model's variables by name.

    They are its trainable variables, and those in MODEL_VARIABLES: moving averages of batch normalisation (those of a
    Keras layer if the graph trains), and variables frozen with ``skip_collection``. The optimizer's are left out.
    """
    with session.graph.as_default():
        variables = {variable.op.name: variable for variable in [*tf.trainable_variables(), *tf.model_variables()]}
    values: dict[str, np.ndarray] = session.run(variables)
    return values


def get_checkpoint_path(path: str) -> str:
    """Return the prefix of the checkpoint that a path means, as ``resolve_checkpoint`` does."""
    return resolve_checkpoint(path)


def is_training_name(name: str) -> bool:
    """Tell by its name, with or without ``:0``, whether a variable is probably only needed for training.

    Such are slots, counters and learning rates.
    """
    name = name.removesuffix(":0")
    is_counter = name.rpartition("/")[2] in _TRAINING_NAMES
    return is_counter or name.endswith(_TRAINING_SUFFIXES) or name.startswith(_TRAINING_SCOPES)


def get_savename_from_varname(
    varname: str, varname_prefix: str | None = None, savename_prefix: str | None = None
) -> str:
    """Return the name in a checkpoint for that of a variable.

    Args:
        varname: the name of the variable.
        varname_prefix: a scope to remove from its front.
        savename_prefix: a scope to put in front instead.
    """
    name = varname
    if varname_prefix:
        name = name.removeprefix(f"{varname_prefix.rstrip('/')}/")
    return f"{savename_prefix.rstrip('/')}/{name}" if savename_prefix else name


def _write_npz(file: IO[bytes], values: Mapping[str, np.ndarray]) -> None:
    """Write the file of ``np.savez``, which cannot have arrays that are called like its own arguments."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, value in values.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                # Numpy's files know no bfloat16.
                plain = value.astype(np.float32) if value.dtype.name == "bfloat16" else value
                np.lib.format.write_array(entry, plain, allow_pickle=False)
