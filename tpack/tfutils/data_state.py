"""Which data points training had used when a checkpoint was saved: a small file beside each checkpoint.

The position in a dataflow is no variable, and it may hold arrays: the state of a generator of random numbers, or the
data points that wait in a shuffling buffer. The file is written as `tpack.tfutils.train_state` writes its own, before
the checkpoint, and goes with it.
"""

import os
from typing import Any

from tpack.errors import CheckpointError, InputError
from tpack.utils.fs import atomic_write
from tpack.utils.serialize import dumps, loads

DATA_SUFFIX = ".data_state.msgpack"


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
