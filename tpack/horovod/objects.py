"""Python objects that travel between workers, and the barrier."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.horovod.movements import allgather, broadcast
from tpack.horovod.process_sets import ProcessSet, global_process_set
from tpack.horovod.runtime import current


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the object of one worker, in all; it is pickled.

    Args:
        obj: the root's counts.
        root_rank: its rank among all.
        session: not needed: it is sent in a session of its own.
        name: the name by which workers pair it.
        process_set: the workers that take part.

    Raises:
        ConfigError, CollectiveError: As `broadcast` and its run do.
    """
    is_root = current().group.rank == root_rank
    data = _pickled(obj) if is_root else np.zeros(0, np.uint8)
    with tf.Graph().as_default():
        size = broadcast(tf.constant([data.size]), root_rank, f"{name or 'object'}_size", process_set=process_set)
        buffer = tf.placeholder(tf.uint8, [None])
        sent = broadcast(buffer, root_rank, f"{name or 'object'}_bytes", process_set=process_set)
        with tf.Session() as session_of_its_own:
            count, received = session_of_its_own.run([size, sent], {buffer: data})
    return obj if is_root else pickle.loads(received[: int(count[0])].tobytes())


def broadcast_object_fn(
    root_rank: int = 0, session: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Callable[[Any], Any]:
    """Return a function of an object that does what `broadcast_object` does."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(
    obj: Any, session: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Return the objects of all workers, by rank; they are pickled.

    Args:
        obj: this worker's.
        session: not needed: they are sent in a session of its own.
        name: the name by which workers pair it.
        process_set: the workers that take part.

    Raises:
        ConfigError, CollectiveError: As `allgather` and its run do.
    """
    data = _pickled(obj)
    with tf.Graph().as_default():
        buffer = tf.placeholder(tf.uint8, [None])
        sizes = allgather(tf.constant([data.size]), f"{name or 'object'}_sizes", process_set=process_set)
        sent = allgather(buffer, f"{name or 'object'}_all_bytes", process_set=process_set)
        with tf.Session() as session_of_its_own:
            counts, received = session_of_its_own.run([sizes, sent], {buffer: data})
    parts = np.split(received, np.cumsum(counts)[:-1])
    return [pickle.loads(part.tobytes()) for part in parts]


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until all workers of a set have called it."""
    allgather_object(None, name="barrier", process_set=process_set)


def _pickled(obj: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL), np.uint8)
