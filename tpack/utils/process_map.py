"""A process that makes a function once and calls it on what it is sent, as the process that started it sees it.

For functions that take long to make, such as a model with its weights, and cannot be sent to another process. The
process starts a new interpreter and is no fork: TensorFlow, once used, does not survive a fork.
"""

import multiprocessing
import pickle
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from tpack.errors import ConfigError, WorkerError
from tpack.utils.env import change_env
from tpack.utils.processes import enable_death_signal, ensure_proc_terminate, start_proc_mask_signal

_END_SECS = 5.0
"""How long a process may take to end by itself when it is no more needed."""


def pickled(obj: Any, what: str) -> bytes:
    """Return an object as bytes for a process that tpack starts; lambdas and nested functions can be sent, too.

    Args:
        obj: the object.
        what: what to call it in the message.

    Raises:
        ConfigError: It cannot be sent.
    """
    try:
        return cloudpickle.dumps(obj)
    except (TypeError, AttributeError, ValueError, RuntimeError, pickle.PicklingError) as error:
        raise ConfigError(f"{what} cannot be sent to another process: {error}") from error


class WorkerProcess:
    """One process; it is sent one value at a time, when it is idle.

    It ends with the thread that started it.

    Args:
        make_function: a function without arguments, as `pickled` gives it, that returns the function to call.
        name: what to call the process in messages.

    Attributes:
        connection: is ready for reading when `receive` has something to return or to raise.
        is_idle: whether it has made its function and has nothing to do.
        task: the number and value that it works on, or None.
    """

    def __init__(self, make_function: bytes, name: str) -> None:
        self.name = name
        self.is_idle = False
        self.task: tuple[int, Any] | None = None
        self._doing = "before it was ready"
        context = multiprocessing.get_context("spawn")
        self.connection, self._theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(self._theirs, make_function), name=name, daemon=True)

    def start(self, environment: Mapping[str, str]) -> None:
        """Start the process, which makes its function first."""
        with ExitStack() as stack:
            for variable, value in environment.items():
                stack.enter_context(change_env(variable, value))
            start_proc_mask_signal(self._process)
        ensure_proc_terminate(self._process)
        # Now the process alone has this end, so that its death closes it.
        self._theirs.close()

    def send(self, number: int, value: Any) -> None:
        """Send a value to the process, which is idle and therefore listens.

        Raises:
            WorkerError: The process has died.
            ConfigError: The value cannot be sent.
        """
        content = pickled(value, f"value {number} for {self.name}")
        self.task, self.is_idle, self._doing = (number, value), False, f"on value {number}"
        try:
            self.connection.send_bytes(content)
        except OSError as error:
            raise self._death() from error

    def receive(self) -> tuple[int | None, Any]:
        """Return the number of a value, and the value with its result; the number is None for the first answer.

        Raises:
            WorkerError: The process failed or died.
        """
        try:
            failure, content = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._death() from error
        if failure is not None:
            raise WorkerError(f"{self._describe()} failed {self._doing}: {failure}") from _RemoteError(content)
        task, self.task, self.is_idle, self._doing = self.task, None, True, "while it had nothing to do"
        return (None, None) if task is None else (task[0], (task[1], cloudpickle.loads(content)))

    def dismiss(self) -> None:
        """Tell the process that there is nothing more to do, and wait until it has ended."""
        self.connection.close()
        self._process.join(_END_SECS)

    def end(self) -> None:
        """End the process, whatever it does."""
        self.connection.close()
        self._theirs.close()
        if self._process.pid is None:
            return
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(_END_SECS)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    def _death(self) -> WorkerError:
        self._process.join(_END_SECS)
        return WorkerError(f"{self._describe()} died {self._doing}, with exit code {self._process.exitcode}")

    def _describe(self) -> str:
        return f"{self.name} (process {self._process.pid})"


class _RemoteError(Exception):
    """The traceback of another process, printed as the cause of an error in this one."""


def _work(connection: Connection, make_function: bytes) -> None:
    """Make the function and call it on what comes, until nothing comes any more; runs in the process."""
    enable_death_signal()
    failure, function = _attempt(lambda: cloudpickle.loads(make_function)())
    content: Any = function
    try:
        connection.send((failure, None if failure is None else content))
        while failure is None:
            value = connection.recv_bytes()
            failure, content = _attempt(partial(_call, function, value))
            connection.send((failure, content))
    except (EOFError, OSError):
        # Nobody is at the other end any more.
        return


def _call(function: Callable[[Any], Any], value: bytes) -> bytes:
    return cloudpickle.dumps(function(cloudpickle.loads(value)))


def _attempt(action: Callable[[], Any]) -> tuple[str | None, Any]:
    """Return what went wrong with its traceback, or None with the result."""
    try:
        return None, action()
    except Exception as error:
        return f"{type(error).__name__}: {error}", f"\n{traceback.format_exc()}"
