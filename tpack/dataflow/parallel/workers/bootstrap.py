"""The first thing that runs in a worker, and the last: it sets the process up, serves, and reports what went wrong."""

import multiprocessing
import os
import random
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpack.dataflow.parallel.failure import failure_of
from tpack.dataflow.parallel.heap import keep_freed_memory
from tpack.dataflow.parallel.lifeline import hang_on
from tpack.dataflow.parallel.payload import Payload, read_payload
from tpack.dataflow.parallel.streaming_stores import without_streaming_stores
from tpack.dataflow.parallel.transport.receiver import Receiver
from tpack.dataflow.parallel.transport.sender import Sender
from tpack.dataflow.parallel.transport.wire import Kind, PeerGoneError
from tpack.dataflow.parallel.workers.child import Task
from tpack.utils.rng import fix_rng_seed


@dataclass(frozen=True)
class Link:
    """What a worker has of its owner.

    Attributes:
        results: where its data points go.
        jobs: where what the owner sends comes from.
    """

    results: Sender
    jobs: Receiver


Serve = Callable[..., None]
"""A function that a worker runs: it gets the link and more arguments, and ends by an exception."""


def main(told: dict[str, Any]) -> None:
    """Be a worker in a new interpreter; it does not return.

    Args:
        told: what ``spawn_child`` says.
    """
    sys.argv = told["argv"]
    without_streaming_stores(os.environ)
    payload = Payload(**told["payload"])
    sys.exit(run_worker(Task(**told["task"]), lambda: read_payload(payload)))


def run_worker(task: Task, get_work: Callable[[], tuple[Serve, tuple[Any, ...]]]) -> int:
    """Be a worker.

    Args:
        task: what the worker is told.
        get_work: returns the function to run and its arguments after the link.

    Returns:
        The exit code of the process.
    """
    hang_on(task.lifeline)
    keep_freed_memory()
    multiprocessing.current_process().name = task.name
    random.seed(task.seed)
    np.random.seed(task.seed)
    fix_rng_seed(task.seed)
    results = Sender(socket.socket(fileno=task.results), task.capacity, has_flusher=True)
    link = Link(results, Receiver(socket.socket(fileno=task.jobs)))
    try:
        serve, arguments = get_work()
        results.send(Kind.READY)
        serve(link, *arguments)
    except PeerGoneError:
        return 0
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException as error:
        _report(results, error)
    return 1


def _report(results: Sender, error: BaseException) -> None:
    """Tell the owner why the worker ends; if it does not listen any more, write it to standard error."""
    try:
        results.send(Kind.FATAL, failure_of(error))
    except PeerGoneError:
        traceback.print_exception(error)
