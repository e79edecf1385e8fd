"""The state of a run at a checkpoint: two small files beside it.

The epoch, the step in it and the states of callbacks are in a JSON file; the position in a dataflow, which may hold
arrays, is in a msgpack file. Each is written to a temporary file, flushed and renamed, so it is whole or absent after a
kill. They are written before the checkpoint, so every complete checkpoint has its state; a state without a checkpoint
is removed by ``prune_train_states``. Both have a checksum and their step, which reveal changed bits and files of
another checkpoint.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tpack.errors import CheckpointError, InputError
from tpack.utils.fs import atomic_write, leftover_of
from tpack.utils.serialize import dumps, loads, seal, seal_json, unseal, unseal_json
from tpack.utils.validation import check_count, check_instance, mismatch

_SUFFIX = ".train_state.json"
_DATA_SUFFIX = ".data_state.msgpack"
_WORKERS = "workers"


@dataclass(frozen=True)
class TrainState:
    """The progress of training.

    Attributes:
        epoch_num: the epoch, counted from 1.
        local_step: the number of finished steps of that epoch.
        global_step: the number of finished steps in all.
        callbacks: the states of callbacks by name, in types of JSON.
        steps_per_epoch: the number of steps of an epoch; None where an older version wrote the state.

    Raises:
        ConfigError: A number is not an integer, or below its smallest value, or ``callbacks`` is not a dict.
    """

    epoch_num: int
    local_step: int
    global_step: int
    callbacks: dict[str, Any] = field(default_factory=dict)
    steps_per_epoch: int | None = None

    def __post_init__(self) -> None:
        for name, smallest in (("epoch_num", 1), ("local_step", 0), ("global_step", 0), ("steps_per_epoch", 1)):
            if name != "steps_per_epoch" or self.steps_per_epoch is not None:
                check_count(self, name, getattr(self, name), smallest)
        check_instance(self, "callbacks", self.callbacks, dict)


def train_state_path(prefix: str) -> str:
    """Return the name of the state file that belongs to the checkpoint ``prefix``."""
    return prefix + _SUFFIX


@dataclass(frozen=True)
class PackedStates:
    """The content of the two files, which another thread may write while training continues.

    Attributes:
        train: the content of the first.
        data: that of the second; None without a position in the data.
    """

    train: bytes
    data: bytes | None

    def write(self, prefix: str) -> None:
        """Write the files of the checkpoint ``prefix``; they survive the death of process and machine."""
        _write_content(data_state_path(prefix), self.data)
        _write_content(train_state_path(prefix), self.train)


def pack_states(state: TrainState, data_state: object) -> PackedStates:
    """Return the content of the files for a state and a position in the data; None for no position.

    Raises:
        DataPointError: The position cannot be serialized.
        TypeError: JSON cannot hold the state of a callback.
    """
    return PackedStates(_packed(state), _packed_data(data_state, state.global_step))


def write_train_state(prefix: str, state: TrainState) -> None:
    """Write the state that belongs to the checkpoint ``prefix``; it survives the death of process and machine."""
    _write_content(train_state_path(prefix), _packed(state))


def _packed(state: TrainState) -> bytes:
    return seal_json(asdict(state)).encode()


def _write_content(path: str, content: bytes | None) -> None:
    """Write a file as a whole; None removes it."""
    if content is not None:
        with atomic_write(path, "wb") as file:
            file.write(content)
    elif os.path.exists(path):
        os.remove(path)


def read_train_state(prefix: str) -> TrainState | None:
    """Return the state that belongs to the checkpoint ``prefix``, or None if it has no such file.

    Raises:
        CheckpointError: The file does not hold a state, or is damaged.
    """
    path = train_state_path(prefix)
    try:
        with open(path, encoding="utf-8") as file:
            content = unseal_json(file.read())
        return TrainState(**content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, InputError, RecursionError) as error:
        raise CheckpointError(f"{path} holds no training state: {error}. {_way_out(path)}") from error


def _way_out(path: str) -> str:
    return f"Without {os.path.basename(path)}, training resumes from the checkpoint alone"


def prune_train_states(checkpoint_dir: str) -> list[str]:
    """Remove the states without a checkpoint, and the leftovers of a killed process; return their paths, sorted.

    Call it after a checkpoint was saved, never between writing its state and saving it.
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
    """Write the position of a step that belongs to the checkpoint ``prefix``; None removes the file.

    Raises:
        DataPointError: The state cannot be serialized.
    """
    _write_content(data_state_path(prefix), _packed_data(state, global_step))


def _packed_data(state: object, global_step: int) -> bytes | None:
    return None if state is None else seal(dumps({"global_step": global_step, "state": state}))


def workers_state(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the positions of several workers as one state."""
    return {_WORKERS: list(states)}


def states_of_workers(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the position of each worker in a state; that of a single process is the only one.

    Raises:
        InputError: A state of several workers does not hold their positions.
    """
    states = state[_WORKERS] if isinstance(state, dict) and _WORKERS in state else [state]
    if not isinstance(states, list) or not states or not all(isinstance(each, dict) for each in states):
        raise InputError(mismatch("states_of_workers", "state", state, "the positions of workers in a list"))
    return states


def read_data_state(prefix: str, global_step: int) -> Any:
    """Return the position of a step that belongs to the checkpoint ``prefix``, or None if it has no such file.

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
        expected = f"expected that of step {global_step}, its checkpoint's"
        raise CheckpointError(f"{path} is the position of step {content['global_step']}: {expected}. {_way_out(path)}")
    return content["state"]
