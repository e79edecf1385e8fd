"""Where a run was when a checkpoint was saved: a small JSON file beside each checkpoint.

A checkpoint holds the variables; the epoch, and how far it had come, are no variables. The file is written aside,
flushed to the disk and renamed, so that it is whole or absent whenever the process dies. Write it before the
checkpoint: then every complete checkpoint has its state, and a state without a checkpoint is only left over
(``prune_train_states``).

Which data points training had used when a checkpoint was saved: a small file beside each checkpoint.

The position in a dataflow is no variable, and it may hold arrays: the state of a generator of random numbers, or the
data points that wait in a shuffling buffer. The file is written as `tpack.tfutils.train_state` writes its own, before
the checkpoint, and goes with it.
"""

import json
import os
import re
from dataclasses import asdict, dataclass, fields
from typing import Any

from tpack.errors import CheckpointError, ConfigError, InputError
from tpack.utils.fs import atomic_write
from tpack.utils.serialize import dumps, loads

SUFFIX = ".train_state.json"
DATA_SUFFIX = ".data_state.msgpack"
# What `atomic_write` leaves behind when the process is killed inside it.
_WRITTEN_ASIDE = re.compile(rf"^\..*({re.escape(SUFFIX)}|{re.escape(DATA_SUFFIX)})\.\w+\.tmp$")


@dataclass(frozen=True)
class TrainState:
    """How far training has come.

    Attributes:
        epoch_num: the epoch, counted from 1.
        local_step: how many steps of that epoch are finished.
        global_step: how many steps are finished in all.

    Raises:
        ConfigError: A number is not an integer, or below its smallest value.
    """

    epoch_num: int
    local_step: int
    global_step: int

    def __post_init__(self) -> None:
        for name, smallest in (("epoch_num", 1), ("local_step", 0), ("global_step", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise ConfigError(f"wanted an integer {name} of at least {smallest}, got {value!r}")


def train_state_path(prefix: str) -> str:
    """Return the name of the state file that belongs to the checkpoint ``prefix``."""
    return prefix + SUFFIX


def write_train_state(prefix: str, state: TrainState) -> None:
    """Write the state that belongs to the checkpoint ``prefix``; it survives the death of process and machine."""
    with atomic_write(train_state_path(prefix)) as file:
        json.dump(asdict(state), file)


def read_train_state(prefix: str) -> TrainState | None:
    """Return the state that belongs to the checkpoint ``prefix``, or None when there is none.

    Raises:
        CheckpointError: The file does not hold a state.
    """
    path = train_state_path(prefix)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        return TrainState(**{field.name: content[field.name] for field in fields(TrainState)})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} holds no training state: {type(error).__name__}: {error}") from error


def prune_train_states(checkpoint_dir: str) -> list[str]:
    """Remove the states whose checkpoint is gone, of training and of data, and what a killed process left half written.

    Call it after a checkpoint was saved, never between writing its state and saving it.

    Returns:
        The paths that were removed, sorted.
    """
    names = set(os.listdir(checkpoint_dir))
    removed = []
    for name in sorted(names):
        prefix = name.removesuffix(SUFFIX).removesuffix(DATA_SUFFIX)
        is_orphan = prefix != name and prefix + ".index" not in names
        if is_orphan or _WRITTEN_ASIDE.search(name):
            path = os.path.join(checkpoint_dir, name)
            os.remove(path)
            removed.append(path)
    return removed


def data_state_path(prefix: str) -> str:
    """Return the name of the file that belongs to the checkpoint ``prefix``."""
    return prefix + DATA_SUFFIX


def write_data_state(prefix: str, state: Any) -> None:
    """Write the position that belongs to the checkpoint ``prefix``; it survives the death of process and machine.

    Args:
        prefix: the checkpoint.
        state: what `tpack.utils.serialize` takes; None where there is no position, and then no file stays either.

    Raises:
        DataPointError: The state holds something that cannot be serialized.
    """
    path = data_state_path(prefix)
    if state is None:
        if os.path.exists(path):
            os.remove(path)
        return
    content = dumps(state)
    with atomic_write(path, "wb") as file:
        file.write(content)


def read_data_state(prefix: str) -> Any:
    """Return the position that belongs to the checkpoint ``prefix``, or None when there is none.

    Raises:
        CheckpointError: The file does not hold a position.
    """
    path = data_state_path(prefix)
    try:
        with open(path, "rb") as file:
            return loads(file.read())
    except FileNotFoundError:
        return None
    except InputError as error:
        raise CheckpointError(f"{path} holds no position in the data: {error}") from error
