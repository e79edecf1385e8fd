"""What new interpreters are to work on, in memory that they share.

The flow is pickled once, however many workers there are. Its arrays are mapped into each worker copy on write: a data
set in memory is there once, and a worker that changes its arrays changes them for itself only.
"""

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpack.dataflow.parallel.transport.codec import Encoded, decode
from tpack.errors import ConfigError, DataPointError


@dataclass(frozen=True)
class Payload:
    """Where an object was written.

    Attributes:
        descriptor: an open file.
        size: the size of the file.
        rest_start: see ``Encoded``.
        rest_size: see ``Encoded``.
    """

    descriptor: int
    size: int
    rest_start: int
    rest_size: int


@contextmanager
def write_payload(owner: str, obj: Any) -> Iterator[Payload]:
    """Write an object for other processes; it is there for as long as the ``with`` block or a reader keeps it.

    Args:
        owner: whose workers it is for, for the message.
        obj: anything that cloudpickle takes.

    Raises:
        ConfigError: It cannot be pickled.
    """
    try:
        encoded = Encoded(obj)
    except DataPointError as error:
        raise ConfigError(
            f"{owner} cannot be sent to its workers: {error}; make what cannot be pickled in reset_state(), or let the "
            "workers be forked, with start_workers_by('fork')"
        ) from error
    descriptor = _anonymous_file()
    try:
        os.truncate(descriptor, encoded.size_bytes)
        encoded.write(np.frombuffer(mmap.mmap(descriptor, encoded.size_bytes), np.uint8))
        yield Payload(descriptor, encoded.size_bytes, encoded.rest_start, encoded.rest_size)
    finally:
        os.close(descriptor)


def read_payload(payload: Payload) -> Any:
    """Return the object; its arrays are shared with the other readers until they are written to."""
    memory = np.frombuffer(mmap.mmap(payload.descriptor, payload.size, access=mmap.ACCESS_COPY), np.uint8)
    return decode(memory, payload.rest_start, payload.rest_size, lambda spec: spec.view(memory))


def _anonymous_file() -> int:
    """Open a file without a name, in memory where the system can."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tpack-payload")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
