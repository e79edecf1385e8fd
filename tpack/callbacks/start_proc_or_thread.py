"""Threads and processes that run during a training."""

from __future__ import annotations

import functools
import multiprocessing as mp
import threading
from collections.abc import Callable
from multiprocessing import connection
from typing import TypeAlias

from tpack.callbacks.base import Callback
from tpack.errors import CallbackError, WorkerError
from tpack.utils import logger
from tpack.utils.child_process import cause_of_death
from tpack.utils.concurrency import start_proc_mask_signal
from tpack.utils.validation import check_arguments, mismatch

Startable: TypeAlias = mp.process.BaseProcess | threading.Thread

JOIN_TIMEOUT_SECS = 5.0
"""Timeout for each of them at the end of training."""


@check_arguments
class StartProcOrThread(Callback):
    """Start threads and processes before training, and stop them after it.

    A thread that ends with an exception, or a process with an exit code, ends training with an error that names it; a
    step could wait forever for its data.

    Args:
        startable: a process, a thread, or a list of them.
        stop_at_last: after training, call ``stop()`` of threads and ``terminate()`` of processes, and wait a few
            seconds. A thread without ``stop()`` is left running, with a warning.

    Raises:
        CallbackError: something in ``startable`` is neither a process nor a thread.
    """

    _chief_only = False

    def __init__(
        self, startable: Startable | list[Startable] | tuple[Startable, ...], stop_at_last: bool = True
    ) -> None:
        self._members: list[Startable] = list(startable) if isinstance(startable, (list, tuple)) else [startable]
        for member in self._members:
            if not isinstance(member, (mp.process.BaseProcess, threading.Thread)):
                raise CallbackError(mismatch(self, "startable", member, "processes and threads"))
        self._stops = stop_at_last
        self._started: list[Startable] = []
        self._watchers: list[threading.Thread] = []

    def _before_train(self) -> None:
        logger.info(f"Starting {', '.join(member.name for member in self._members)} ...")
        for member in self._members:
            if isinstance(member, mp.process.BaseProcess):
                start_proc_mask_signal(member)
                name = f"watches {member.name}"
                watcher = threading.Thread(target=self._watch_process, args=(member,), name=name, daemon=True)
                watcher.start()
                self._watchers.append(watcher)
            else:
                # On the instance: it covers both a subclass's run() and the argument ``target``.
                member.__dict__["run"] = functools.partial(self._run_watched, member, member.run)
                member.start()
            self._started.append(member)

    def _run_watched(self, thread: threading.Thread, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            self._end_training(f"the thread {thread.name!r} ended with {type(error).__name__}: {error}", error)
            raise

    def _watch_process(self, process: mp.process.BaseProcess) -> None:
        connection.wait([process.sentinel])
        # The sentinel closes before the kernel knows the exit code.
        process.join()
        if process.exitcode:
            self._end_training(f"the process {process.name!r} {cause_of_death(process.exitcode)}", None)

    def _end_training(self, what: str, cause: BaseException | None) -> None:
        failure = WorkerError(f"training ends because {what}")
        failure.__cause__ = cause
        interruption = self.trainer.interruption
        if interruption is not None:
            interruption.fail(failure)

    def _after_train(self) -> None:
        if not self._stops:
            return
        started, self._started = self._started, []
        stopped = [member for member in started if _ask_to_end(member)]
        # The kernel reports the end of a process to one thread only; another one would take it for alive.
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.join(JOIN_TIMEOUT_SECS)
        for member in stopped:
            member.join(JOIN_TIMEOUT_SECS)
            if member.is_alive():
                logger.warning(f"{member.name} did not end within {JOIN_TIMEOUT_SECS:g} seconds and is left alone.")

    def failure(self) -> BaseException | None:
        """Return the error that ended one of the threads."""
        failures = (member.failure() for member in self._started if hasattr(member, "failure"))
        return next((error for error in failures if error is not None), None)


def _ask_to_end(member: Startable) -> bool:
    if isinstance(member, mp.process.BaseProcess):
        member.terminate()
    elif hasattr(member, "stop"):
        member.stop()
    elif member.is_alive():
        logger.warning(f"{member.name} is a thread without stop() and is left alone.")
        return False
    return True
