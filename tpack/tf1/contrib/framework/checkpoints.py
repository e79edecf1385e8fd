"""Values from checkpoints and arrays into the variables of a graph."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError, ConfigError
from tpack.tf1.contrib.framework.variables import get_unique_variable, get_variable_full_name, parts_of
from tpack.utils import logger
from tpack.utils.validation import shown

Feeds = dict[tf.Tensor, Any]


def assign_from_values(var_names_to_values: Mapping[str, Any]) -> tuple[tf.Operation, Feeds]:
    """Make an operation that sets variables to arrays, by names with all scopes, and its feeds.

    Raises:
        ConfigError: There is no such variable.
    """
    found = [(get_unique_variable(name), np.asarray(value)) for name, value in var_names_to_values.items()]
    return _assign(found)


def assign_from_values_fn(var_names_to_values: Mapping[str, Any]) -> Callable[[tf.Session], Any]:
    """Return a function that sets variables to values in a session."""
    assign_op, feeds = assign_from_values(var_names_to_values)
    return lambda session: session.run(assign_op, feeds)


def assign_from_checkpoint(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[tf.Operation, Feeds]:
    """Make an operation that sets variables to what a checkpoint has, and what is to be fed when it runs.

    Args:
        model_path: the checkpoint.
        var_list: variables; or a dict of them, or of the parts of one, by their names in the checkpoint.
        ignore_missing_vars: leave out, with a line in the log, what the checkpoint does not have.

    Raises:
        CheckpointError: The checkpoint lacks a variable, or has it in another size.
    """
    reader = tf.train.load_checkpoint(model_path)
    found: list[tuple[tf.Variable, np.ndarray]] = []
    for name, parts in _by_saved_name(var_list).items():
        if reader.has_tensor(name):
            value = reader.get_tensor(name)
            found.extend((part, _value_of_part(name, part, value)) for part in parts)
        elif ignore_missing_vars:
            logger.warning(f"The checkpoint {model_path} has no variable {name}, which is left as it is.")
        else:
            raise CheckpointError(f"the checkpoint {model_path} has no variable {name}")
    return _assign(found)


def assign_from_checkpoint_fn(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False, reshape_variables: bool = False
) -> Callable[[tf.Session], None] | None:
    """Return a function that restores variables in a session; None if all are missing and that is ignored.

    ``reshape_variables`` restores also values of another shape and the same size; see `assign_from_checkpoint`.

    Raises:
        ConfigError: There are no variables.
    """
    if not var_list:
        raise ConfigError(f"var_list is to name variables, got {shown(var_list)}")
    if ignore_missing_vars:
        reader = tf.train.load_checkpoint(model_path)
        named = var_list if isinstance(var_list, Mapping) else {get_variable_full_name(var): var for var in var_list}
        missing = [name for name in named if not reader.has_tensor(name)]
        for name in missing:
            logger.warning(f"The checkpoint {model_path} has no variable {name}, which is left as it is.")
        if not isinstance(var_list, Mapping):
            var_list = [var for var in var_list if get_variable_full_name(var) not in missing]
        else:
            var_list = {name: var for name, var in var_list.items() if name not in missing}
    if not var_list:
        logger.warning(f"The checkpoint {model_path} has none of the variables: nothing is restored from it.")
        return None
    saver = tf.train.Saver(var_list, reshape=reshape_variables, write_version=tf.train.SaverDef.V2)
    return lambda session: saver.restore(session, model_path)


def list_variables(checkpoint_dir: str) -> list[tuple[str, list[int]]]:
    """Return the name and shape of each variable of a checkpoint, given by its prefix or directory."""
    return tf.train.list_variables(checkpoint_dir)


def load_checkpoint(filepattern: str) -> Any:
    """Return a reader of a checkpoint, given by its prefix or directory."""
    return tf.train.load_checkpoint(filepattern)


def load_variable(checkpoint_dir: str, name: str) -> np.ndarray:
    """Return the value of a variable of a checkpoint."""
    return tf.train.load_variable(checkpoint_dir, name)


def init_from_checkpoint(checkpoint_dir: str, assignment_map: Mapping[str, Any]) -> None:
    """Let variables be initialised by what a checkpoint has, as ``tf.train.init_from_checkpoint`` does."""
    tf.train.init_from_checkpoint(checkpoint_dir, assignment_map)


def _by_saved_name(var_list: Any) -> dict[str, list[tf.Variable]]:
    """Return the variables, or the parts of each, by the names that they are saved under."""
    if isinstance(var_list, Mapping):
        return {name: list(var) if isinstance(var, list | tuple) else parts_of(var) for name, var in var_list.items()}
    grouped: dict[str, list[tf.Variable]] = {}
    for var in var_list:
        for part in parts_of(var):
            grouped.setdefault(get_variable_full_name(part), []).append(part)
    return grouped


def _value_of_part(name: str, part: tf.Variable, value: np.ndarray) -> np.ndarray:
    slice_info = getattr(part, "_save_slice_info", None)
    if slice_info is not None:
        ends = np.add(slice_info.var_offset, slice_info.var_shape)
        value = value[tuple(map(slice, slice_info.var_offset, ends))]
    shape = part.shape.as_list()
    if value.size != np.prod(shape, dtype=int):
        raise CheckpointError(f"{part.op.name} has the shape {shape}, the checkpoint has {name} as {list(value.shape)}")
    return value.reshape(shape)


def _assign(pairs: Sequence[tuple[tf.Variable, np.ndarray]]) -> tuple[tf.Operation, Feeds]:
    feeds: Feeds = {}
    assignments = []
    for var, value in pairs:
        placeholder = tf.placeholder(var.dtype.base_dtype, value.shape, name=f"placeholder/{var.op.name}")
        feeds[placeholder] = value
        assignments.append(tf.assign(var, placeholder).op)
    return tf.group(*assignments), feeds
