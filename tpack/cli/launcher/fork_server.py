"""Fork server of an agent: a process that has imported TensorFlow, and forks the processes of a job in no time.

agent -- order: rank, command, environment, directory, descriptors --> server -- fork --> the process runs its script
agent <-- ready, the exit code of each process ------------------------ server

A message is a length of four bytes and JSON; descriptors of a process's output travel beside it. The server has one
thread, and starts nothing of TensorFlow, so a fork has all that a new interpreter has after the same imports. What
differs is in docs/clusters.md. The server ends with the agent, and its processes end with it.
"""

import gc
import importlib
import json
import os
import random
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tpack.cli.launcher.process_tree import die_with_parent
from tpack.utils.progress import line_of

DEFAULT_MODULES = (
    "tensorflow.compat.v1",
    "tpack.callbacks.inference.runners",
    "tpack.callbacks.saver",
    "tpack.callbacks.trigger",
    "tpack.multi_worker.ps_trainer",
    "tpack.multi_worker.replicated_trainer",
    "tpack.train.interface",
    "tpack.train.resume",
)
"""What is imported before the first fork, where nothing else is given."""

_ROOT = str(Path(__file__).resolve().parents[3])
_HEADER = struct.Struct("!I")
_MOST_DESCRIPTORS = 8
# The path of the server is that of a new interpreter, without the entry of ``-c``.
_BOOT = (
    "import sys; path = [entry for entry in sys.path if entry]; sys.path[:0] = [{root!r}]; "
    "from tpack.cli.launcher.fork_server import main; sys.path[:] = path; main({descriptor}, {modules!r})"
)


class ForkServer:
    """The agent's side of a fork server.

    Args:
        executable: the interpreter, that of the processes.
        environment: variables of the server, which its modules read when they are imported.
        modules: what it imports.

    Attributes:
        is_ready: whether it has imported everything.
        pid: its process.
    """

    def __init__(self, executable: str, environment: Mapping[str, str], modules: Sequence[str]) -> None:
        self.is_ready = False
        self._codes: dict[int, int] = {}
        self._unsent: list[tuple[dict[str, Any], list[int]]] = []
        self._unread = b""
        self._socket, theirs = socket.socketpair()
        boot = _BOOT.format(root=_ROOT, descriptor=theirs.fileno(), modules=list(modules))
        # Nobody reads it until the server has ended.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        with theirs:
            self._process = subprocess.Popen(
                [executable, "-c", boot],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def fileno(self) -> int:
        """Return the descriptor of its messages."""
        return self._socket.fileno()

    def fork(
        self,
        rank: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        directory: str,
        descriptors: list[int],
        *,
        shows_bar: bool = False,
    ) -> "Forked":
        """Start a process, now or when the server is ready.

        Args:
            rank: its number in this attempt.
            command: the interpreter, and its arguments.
            environment: all variables.
            directory: its working directory.
            descriptors: of its output, of its errors and of its line to the launcher, if any; they are closed here.
            shows_bar: whether the launcher shows a bar.
        """
        self._codes.pop(rank, None)
        order = {
            "rank": rank,
            "command": list(command),
            "environment": dict(environment),
            "directory": directory,
            "shows_bar": shows_bar,
        }
        self._unsent.append((order, descriptors))
        self._send()
        return Forked(self, rank)

    def signal(self, rank: int, signum: int) -> None:
        """Send a process a signal, or leave one out that was not forked yet, as if the signal had ended it."""
        for entry in [entry for entry in self._unsent if entry[0]["rank"] == rank and "command" in entry[0]]:
            self._unsent.remove(entry)
            _close(entry[1])
            self._codes[rank] = -signum
            return
        self._unsent.append(({"rank": rank, "signum": signum}, []))
        self._send()

    def code(self, rank: int) -> int | None:
        """Return the exit code of a process, or the negative number of a signal; None while it runs."""
        return self._codes.get(rank)

    def receive(self) -> bool:
        """Take what has arrived; return False if the server has ended."""
        try:
            data = self._socket.recv(1 << 16)
        except ConnectionResetError:
            # It ended before it had read all orders.
            data = b""
        self._unread += data
        while len(self._unread) >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._unread)
            body, rest = self._unread[_HEADER.size : _HEADER.size + length], self._unread[_HEADER.size + length :]
            if len(body) < length:
                break
            self._unread = rest
            message = json.loads(body)
            if "ready" in message:
                self.is_ready = True
                self._send()
            else:
                self._codes[message["rank"]] = message["code"]
        return bool(data)

    def last_words(self) -> str:
        """Return what a server that has ended has written, its last lines."""
        self._errors.seek(0)
        text = self._errors.read().decode("utf-8", "replace")
        return "; ".join(text.strip().splitlines()[-3:])

    def close(self) -> None:
        """End the server, and with it its processes."""
        self._socket.close()
        self._leave_out()
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def _leave_out(self) -> None:
        """Forget the orders that were not sent, and close their descriptors."""
        while self._unsent:
            _close(self._unsent.pop()[1])

    def _send(self) -> None:
        # A server that still imports reads nothing, and an agent must not wait for it.
        while self.is_ready and self._unsent:
            order, descriptors = self._unsent.pop(0)
            try:
                _send(self._socket, order, descriptors)
            except OSError:
                # It has ended, which `receive` finds.
                self._leave_out()
            finally:
                _close(descriptors)


class Forked:
    """A process of a fork server, with what an agent needs of `subprocess.Popen`."""

    def __init__(self, server: ForkServer, rank: int) -> None:
        self._server = server
        self._rank = rank

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._server.code(self._rank)

    def send_signal(self, signum: int) -> None:
        """Send it a signal."""
        self._server.signal(self._rank, signum)


def main(descriptor: int, modules: Sequence[str]) -> None:
    """Import modules, and fork processes until the agent has gone; in a fork, run its script instead."""
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in modules:
        importlib.import_module(module)
    # A collection in a fork would copy the memory of all that is imported.
    gc.freeze()
    command = _Server(channel).run()
    _become(command)


class _Server:
    """The server's loop."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._pids: dict[int, int] = {}

    def run(self) -> list[str]:
        """Serve; return, in a fork, the command that it is to run."""
        woken, waker = socket.socketpair()
        for end in (woken, waker):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        _send(self._channel, {"ready": True}, [])
        with selectors.DefaultSelector() as selector:
            for end in (self._channel, woken):
                selector.register(end, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if woken in ready:
                    woken.recv(4096)
                command = self._obey() if self._channel in ready else None
                if command is not None:
                    break
                self._report_ends()
        signal.set_wakeup_fd(-1)
        for end in (self._channel, woken, waker):
            end.close()
        return command

    def _obey(self) -> list[str] | None:
        """Execute an order; return None in the server, and in a fork its command."""
        order, descriptors = _receive(self._channel)
        if order is None:
            # The processes are killed with their parent, by the kernel.
            os._exit(0)
        if "signum" in order:
            self._signal(order["rank"], order["signum"])
            return None
        return self._fork(order, descriptors)

    def _signal(self, rank: int, signum: int) -> None:
        # A process that has ended is here until it is waited for.
        if rank in self._pids:
            os.kill(self._pids[rank], signum)

    def _fork(self, order: Mapping[str, Any], descriptors: list[int]) -> list[str] | None:
        """Fork a process; return None in the server, and the command in the process."""
        parent = os.getpid()
        with warnings.catch_warnings():
            # Threads of numpy's library, which ends and restarts them around a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid:
            self._pids[order["rank"]] = pid
            _close(descriptors)
            return None
        try:
            die_with_parent(parent)
            _take_place(order, descriptors)
        except OSError as error:
            sys.stderr.write(f"cannot be started in {order['directory']}: {error}\n")
            sys.stderr.flush()
            os._exit(127)
        return list(order["command"])

    def _report_ends(self) -> None:
        for rank, pid in list(self._pids.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                del self._pids[rank]
                _send(self._channel, {"rank": rank, "code": os.waitstatus_to_exitcode(status)}, [])


def _take_place(order: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Give this process the output, variables and directory of an order, as a new one would have them."""
    os.setsid()
    output, errors, *progress = descriptors
    for own, given in ((1, output), (2, errors)):
        os.dup2(given, own)
        os.close(given)
    os.environ.clear()
    os.environ.update(order["environment"])
    for each in progress:
        os.set_inheritable(each, True)
        os.environ.update(line_of(each, shows_bar=order["shows_bar"]))
    os.chdir(order["directory"])
    for signum in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL if signum == signal.SIGCHLD else signal.default_int_handler)
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def _become(command: Sequence[str]) -> None:
    """Run a script or a module as an interpreter does that was started with it."""
    _, *arguments = command
    if arguments[0] == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    runpy.run_path(arguments[0], run_name="__main__")


def _send(channel: socket.socket, message: Mapping[str, Any], descriptors: list[int]) -> None:
    body = json.dumps(message).encode()
    data = _HEADER.pack(len(body)) + body
    sent = socket.send_fds(channel, [data], descriptors) if descriptors else 0
    channel.sendall(data[sent:])


def _receive(channel: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Return a message and its descriptors; None at the end of the channel."""
    # Descriptors come with the first byte of a message.
    first, descriptors, _, _ = socket.recv_fds(channel, 1, _MOST_DESCRIPTORS)
    header = first + _read(channel, _HEADER.size - 1) if first else b""
    if len(header) < _HEADER.size:
        return None, descriptors
    (length,) = _HEADER.unpack(header)
    body = _read(channel, length)
    return (json.loads(body) if len(body) == length else None), descriptors


def _read(channel: socket.socket, length: int) -> bytes:
    """Return so many bytes, or fewer at the end of the channel."""
    data = bytearray()
    while len(data) < length and (more := channel.recv(length - len(data))):
        data += more
    return bytes(data)


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
