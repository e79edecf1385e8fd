"""The state of a run at a checkpoint: two small files beside it.

A checkpoint holds the variables. The epoch, the step in it and the states of callbacks are in a JSON file; the position
in a dataflow, which may hold arrays (a generator's state, the data points in a shuffle buffer), is in a msgpack file.
Each is written beside its place, flushed to the disk and renamed, so it is whole or absent whenever the process dies.
Write them before the checkpoint: then every complete checkpoint has its state, and a state without a checkpoint is only
left over (``prune_train_states``).

Both have a checksum and their step: neither a changed bit nor the file of another checkpoint passes for a state.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tpack.errors import CheckpointError, InputError
from tpack.utils.fs import atomic_write, leftover_of
from tpack.utils.serialize import dumps, loads, seal, seal_json, unseal, unseal_json
from tpack.utils.validation import check_count, check_instance, shown

_SUFFIX = ".train_state.json"
_DATA_SUFFIX = ".data_state.msgpack"
_WORKERS = "workers"


@dataclass(frozen=True)
class TrainState:
    """How far training has come.

    Attributes:
        epoch_num: the epoch, counted from 1.
        local_step: how many steps of that epoch are finished.
        global_step: how many steps are finished in all.
        callbacks: what each callback has to remember, by what it is called; in what JSON can hold.
        steps_per_epoch: how many steps an epoch has; None where an older version wrote the state.

    Raises:
        ConfigError: A number is not an integer, or below its smallest value, or ``callbacks`` is no dict.
    """

    epoch_num: int
    local_step: int
    global_step: int
    callbacks: dict[str, Any] = field(default_factory=dict)
    steps_per_epoch: int | None = None

    def __post_init__(self) -> None:
        is_known = self.steps_per_epoch is not None
        numbers = (("epoch_num", 1), ("local_step", 0), ("global_step", 0), *([("steps_per_epoch", 1)] * is_known))
        for name, smallest in numbers:
            check_count(self, name, getattr(self, name), smallest)
        check_instance(self, "callbacks", self.callbacks, dict)


def train_state_path(prefix: str) -> str:
    """Return the name of the state file that belongs to the checkpoint ``prefix``."""
    return prefix + _SUFFIX


@dataclass(frozen=True)
class PackedStates:
    """What the two files beside a checkpoint will hold: another thread may write them while training goes on.

    Attributes:
        train: the content of the first.
        data: that of the second; None where there is no position in the data.
    """

    train: bytes
    data: bytes | None

    def write(self, prefix: str) -> None:
        """Write what belongs to the checkpoint ``prefix``; it survives the death of process and machine."""
        _write_content(data_state_path(prefix), self.data)
        _write_content(train_state_path(prefix), self.train)


def pack_states(state: TrainState, data_state: object) -> PackedStates:
    """Return what the files beside the checkpoint of a state hold.

    Args:
        state: where training is.
        data_state: what `tpack.utils.serialize` takes; None where there is no position.

    Raises:
        DataPointError: The position holds something that cannot be serialized.
        TypeError: A callback has something to remember that JSON cannot hold.
    """
    return PackedStates(_packed(state), _packed_data(data_state, state.global_step))


def write_train_state(prefix: str, state: TrainState) -> None:
    """Write the state that belongs to the checkpoint ``prefix``; it survives the death of process and machine."""
    _write_content(train_state_path(prefix), _packed(state))


def _packed(state: TrainState) -> bytes:
    return seal_json(asdict(state)).encode()


def _write_content(path: str, content: bytes | None) -> None:
    """Write a file as a whole; None leaves none."""
    if content is not None:
        with atomic_write(path, "wb") as file:
            file.write(content)
    elif os.path.exists(path):
        os.remove(path)


def read_train_state(prefix: str) -> TrainState | None:
    """Return the state that belongs to the checkpoint ``prefix``, or None if it has no such file.

    Raises:
        CheckpointError: The file does not hold a state, or another one than was written.
    """
    path = train_state_path(prefix)
    try:
        with open(path, encoding="utf-8") as file:
            content = unseal_json(file.read())
        return TrainState(**content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, InputError) as error:
        raise CheckpointError(f"{path} holds no training state: {error}. {_way_out(path)}") from error


def _way_out(path: str) -> str:
    return f"Without {os.path.basename(path)}, training goes on from the checkpoint all the same, not knowing this"


def prune_train_states(checkpoint_dir: str) -> list[str]:
    """Remove the states whose checkpoint is gone, of training and of data, and what a killed process left half written.

    Call it after a checkpoint was saved, never between writing its state and saving it.

    Returns:
        The paths that were removed, sorted.
    """
    names = set(os.listdir(checkpoint_dir))
    removed = []
    for name in sorted(names):
        prefix = name.removesuffix(_SUFFIX).removesuffix(_DATA_SUFFIX)
        is_orphan = prefix != name and prefix + ".index" not in names
        if is_orphan or (leftover_of(name) or "").endswith((_SUFFIX, _DATA_SUFFIX)):
            path = os.path.join(checkpoint_dir, name)
            os.remove(path)
            removed.append(path)
    return removed


def data_state_path(prefix: str) -> str:
    """Return the name of the file that belongs to the checkpoint ``prefix``."""
    return prefix + _DATA_SUFFIX


def write_data_state(prefix: str, state: object, global_step: int) -> None:
    """Write the position that belongs to the checkpoint ``prefix``; it survives the death of process and machine.

    Args:
        prefix: the checkpoint.
        state: what `tpack.utils.serialize` takes; None where there is no position, and then no file stays either.
        global_step: the step that the position is of.

    Raises:
        DataPointError: The state holds something that cannot be serialized.
    """
    _write_content(data_state_path(prefix), _packed_data(state, global_step))


def _packed_data(state: object, global_step: int) -> bytes | None:
    return None if state is None else seal(dumps({"global_step": global_step, "state": state}))


def workers_state(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the positions of several workers as one state."""
    return {_WORKERS: list(states)}


def states_of_workers(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the position of each worker in a state that was read; that of a single process is the only one.

    Raises:
        InputError: It is said to be of several workers, and does not hold their positions.
    """
    states = state[_WORKERS] if isinstance(state, dict) and _WORKERS in state else [state]
    if not isinstance(states, list) or not states or not all(isinstance(each, dict) for each in states):
        raise InputError(f"{shown(state)} does not hold the positions of workers: expected a list of states")
    return states


def read_data_state(prefix: str, global_step: int) -> Any:
    """Return the position that belongs to the checkpoint ``prefix``, or None if it has no such file.

    Args:
        prefix: the checkpoint.
        global_step: the step that the position must be of.

    Raises:
        CheckpointError: The file does not hold a position, or that of another step.
    """
    path = data_state_path(prefix)
    try:
        with open(path, "rb") as file:
            content = loads(unseal(file.read()))
    except FileNotFoundError:
        return None
    except (OSError, InputError) as error:
        raise CheckpointError(f"{path} holds no position in the data: {error}. {_way_out(path)}") from error
    if not isinstance(content, dict) or content.keys() != {"global_step", "state"}:
        raise CheckpointError(f"{path} holds no position in the data, but other content. {_way_out(path)}")
    if content["global_step"] != global_step:
        raise CheckpointError(
            f"{path} holds the position of step {content['global_step']}: expected that of step {global_step}, its "
            f"checkpoint's. {_way_out(path)}"
        )
    return content["state"]
