"""Agent of ``tpack launch``: runs the processes of a job on one machine; none of them survives it.

It reads orders from its standard input, a line of JSON each, and writes reports to its standard output:

    reserve ports      -> the ports, which stay reserved until the next are
    start processes    -> lines of their output, and the end of each; at last, the end of all
    send a signal to all or some, or end them all: by a signal, and after a grace period by SIGKILL
    watch for silence: from now on there is another order within a timeout
    stay               : after the end of all, wait for the next start
    keep_memory        : make a directory in memory, which is removed when the agent ends
    preload            : import modules in a fork server, from which processes are forked from now on

When the input ends or its timeout expires, the launcher or the connection to it is gone, and the agent ends everything.
It has one thread; a launcher that does not read stops only the processes' output.
"""

import contextlib
import fcntl
import functools
import json
import math
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tpack.cli.launcher.fork_server import Forked, ForkServer
from tpack.cli.launcher.process_tree import adopt_orphans, descendants, die_with_parent, end_all, reap_orphans
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.utils.launch_env import MEMORY_VARIABLE
from tpack.utils.progress import line_of, open_launcher_line

ORPHAN_SECS = 5.0
"""The grace period of processes after the loss of the launcher."""

PROGRESS = 3
"""The number of the progress stream, beside standard output and error."""

MEMORY_PREFIX = "tpack-memory-"
"""The beginning of the name of a directory in memory."""

_SWEEP_SECS = 2.0
_LONGEST_LINE = 1 << 16
_MOST_UNSENT = 1 << 20
# More than a pipe holds.
_MOST_READS = 64


class Agent:
    """Loop that runs processes until all of them have ended, once or, if it is to stay, again and again."""

    def __init__(self, orders: int, reports: int) -> None:
        self._orders = orders
        self._reports = reports
        self._unread = b""
        self._unsent = bytearray()
        self._selector = selectors.DefaultSelector()
        self._processes: dict[int, subprocess.Popen[bytes] | Forked] = {}
        self._server: ForkServer | None = None
        self._preload: dict[str, Any] | None = None
        self._stays = False
        self._memory: MemoryDirectory | None = None
        self._running: set[int] = set()
        self._streams: dict[int, _Stream] = {}
        self._reservations: list[PortReservation] = []
        self._was_started = False
        self._is_orphan = False
        self._kill_at = math.inf
        self._silence_secs = math.inf
        self._silent_at = math.inf

    def run(self) -> None:
        """Execute orders until the processes have ended, or the launcher is gone."""
        adopt_orphans()
        woken = self._listen_to_signals()
        self._selector.register(self._orders, selectors.EVENT_READ, self._take_orders)
        self._selector.register(woken, selectors.EVENT_READ, lambda: woken.recv(4096))
        os.set_blocking(self._reports, False)
        while True:
            self._watch_reports()
            for key, _ in self._selector.select(self._wait_secs()):
                key.data()
            self._note_ends()
            self._look_at_the_clock()
            if self._is_over():
                self._sweep()
                if self._is_orphan or not self._stays:
                    break
                self._forget()
        if self._server is not None:
            self._server.close()
        if self._memory is not None:
            self._memory.remove()

    def _listen_to_signals(self) -> socket.socket:
        """Let signals wake the loop. A handler, unlike ignoring, is not inherited by the processes."""
        woken, waker = socket.socketpair()
        for end in (woken, waker):
            end.setblocking(False)
        self._waker = waker
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for signum in (signal.SIGINT, signal.SIGHUP):
            # Only the launcher ends processes; a signal that is ignored stays so.
            if signal.getsignal(signum) != signal.SIG_IGN:
                signal.signal(signum, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._be_orphan())
        return woken

    def _is_over(self) -> bool:
        return not self._running and (self._was_started or self._is_orphan)

    def _wait_secs(self) -> float | None:
        due = min(self._kill_at, self._silent_at)
        return None if due == math.inf else max(due - time.monotonic(), 0.0)

    # Orders.

    def _take_orders(self) -> None:
        data = os.read(self._orders, 1 << 16)
        if not data:
            self._selector.unregister(self._orders)
            self._be_orphan()
            return
        self._silent_at = time.monotonic() + self._silence_secs
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            order = json.loads(line)
            getattr(self, f"_do_{order.pop('do')}")(**order)

    def _do_stay(self) -> None:
        self._stays = True

    def _do_keep_memory(self, directory: str) -> None:
        if self._memory is None:
            self._memory = MemoryDirectory(directory)

    def _do_preload(self, executable: str, environment: dict[str, str], modules: list[str]) -> None:
        self._preload = {"executable": executable, "environment": environment, "modules": modules}
        if self._server is None:
            self._server = ForkServer(executable, environment, modules)
            self._selector.register(self._server, selectors.EVENT_READ, self._hear_server)

    def _hear_server(self) -> None:
        server = self._server
        if server is None or server.receive():
            return
        # Its processes end with it.
        self._selector.unregister(server)
        self._server = None
        for rank in [rank for rank in self._running if isinstance(self._processes[rank], Forked)]:
            self._running.discard(rank)
            self._report(rank=rank, failed=f"its fork server ended: {server.last_words() or 'it said nothing'}")
        server.close()

    def _do_reserve(self, host: str, count: int) -> None:
        for reservation in self._reservations:
            reservation.close()
        self._reservations = [PortReservation(host) for _ in range(count)]
        self._report(ports=[reservation.port for reservation in self._reservations])

    def _do_start(self, processes: list[dict[str, Any]], directory: str, shows_progress: bool = False) -> None:
        self._was_started = True
        if self._preload is not None:
            # It may have ended in the last round.
            self._do_preload(**self._preload)
        for each in processes:
            try:
                with self._line_of(each["rank"]) as line:
                    self._start(each, directory, line, shows_progress)
            except OSError as error:
                self._report(rank=each["rank"], failed=f"cannot be started in {directory}: {error}")

    def _do_signal(self, signum: int, ranks: Sequence[int] | None = None) -> None:
        for rank in self._running if ranks is None else self._running.intersection(ranks):
            with contextlib.suppress(ProcessLookupError):
                self._processes[rank].send_signal(signum)

    def _do_end(self, signum: int, grace_secs: float) -> None:
        if not self._was_started:
            # All have ended meanwhile.
            return
        self._do_signal(signum)
        self._kill_at = min(self._kill_at, time.monotonic() + grace_secs)

    def _do_watch(self, silence_secs: float) -> None:
        self._silence_secs = silence_secs
        self._silent_at = time.monotonic() + silence_secs

    def _do_nothing(self) -> None:
        """Restart the timeout."""

    def _be_orphan(self) -> None:
        """End everything soon, without a launcher."""
        self._is_orphan = True
        self._do_end(signal.SIGTERM, ORPHAN_SECS)

    # Processes.

    @contextlib.contextmanager
    def _line_of(self, rank: int) -> Iterator[int]:
        """Open a process's line to the launcher, for its progress and its phases; return the end that it inherits."""
        read_end, write_end = open_launcher_line()
        self._listen(read_end, _Stream(rank, PROGRESS, is_owned=True))
        try:
            yield write_end
        finally:
            os.close(write_end)

    def _start(self, order: Mapping[str, Any], directory: str, line: int, shows_bar: bool) -> None:
        rank = order["rank"]
        environment = {**os.environ, **order["environment"]}
        if self._memory is not None:
            environment[MEMORY_VARIABLE] = self._memory.path
        if self._server is not None:
            self._fork(self._server, {**order, "environment": environment}, directory, line, shows_bar)
        else:
            process = subprocess.Popen(
                order["command"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=directory,
                env={**environment, **line_of(line, shows_bar=shows_bar)},
                start_new_session=True,
                pass_fds=(line,),
                # There is one thread only, so that nothing can be locked in the child.
                preexec_fn=functools.partial(die_with_parent, os.getpid()),
            )
            self._processes[rank] = process
            for number, pipe in ((1, process.stdout), (2, process.stderr)):
                self._listen(pipe.fileno() if pipe is not None else -1, _Stream(rank, number))
        self._running.add(rank)

    def _fork(self, server: ForkServer, order: Mapping[str, Any], directory: str, line: int, shows_bar: bool) -> None:
        rank, given = order["rank"], []
        for number in (1, 2):
            read_end, write_end = os.pipe()
            given.append(write_end)
            self._listen(read_end, _Stream(rank, number, is_owned=True))
        given.append(os.dup(line))
        self._processes[rank] = server.fork(
            rank, order["command"], order["environment"], directory, given, shows_bar=shows_bar
        )

    def _listen(self, descriptor: int, stream: "_Stream") -> None:
        os.set_blocking(descriptor, False)
        self._streams[descriptor] = stream
        self._selector.register(descriptor, selectors.EVENT_READ, functools.partial(self._read, descriptor))

    def _read(self, descriptor: int) -> bool:
        try:
            data = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return False
        stream = self._streams[descriptor]
        for line in stream.lines(data):
            self._report(rank=stream.rank, stream=stream.number, text=line.decode("utf-8", "surrogateescape"))
        if not data:
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
            del self._streams[descriptor]
            if stream.is_owned:
                os.close(descriptor)
        return bool(data)

    def _read_rest(self, rank: int | None = None) -> None:
        """Forward what the outputs of a process, or of all, hold now, without waiting for more."""
        for descriptor in [each for each, stream in self._streams.items() if rank in (None, stream.rank)]:
            for _ in range(_MOST_READS):
                if not self._read(descriptor):
                    break

    def _note_ends(self) -> None:
        """Report processes that have ended, those killed by a signal first, since others may have failed by it."""
        ended = [(rank, self._processes[rank].poll()) for rank in self._running]
        for rank, code in sorted(((rank, code) for rank, code in ended if code is not None), key=lambda end: end[1]):
            self._read_rest(rank)
            self._running.discard(rank)
            self._report(rank=rank, code=code)
        running = [self._processes[rank] for rank in self._running]
        own = [process.pid for process in running if isinstance(process, subprocess.Popen)]
        reap_orphans([*own, *([] if self._server is None else [self._server.pid])])

    def _look_at_the_clock(self) -> None:
        if time.monotonic() >= self._silent_at:
            self._silent_at = math.inf
            self._be_orphan()
        if time.monotonic() >= self._kill_at:
            self._do_signal(signal.SIGKILL)
            self._kill_at = math.inf

    def _sweep(self) -> None:
        """End descendants that are left, and send the last reports."""
        server = None if self._server is None else self._server.pid
        left = end_all(lambda: descendants(lambda process: process.pid != server), _SWEEP_SECS)
        self._read_rest()
        self._report(done=True, left=left)
        os.set_blocking(self._reports, True)
        self._send()
        os.set_blocking(self._reports, False)

    def _forget(self) -> None:
        """Forget the processes, all of which have ended."""
        for descriptor, stream in self._streams.items():
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
            if stream.is_owned:
                os.close(descriptor)
        for process in self._processes.values():
            for pipe in (process.stdout, process.stderr) if isinstance(process, subprocess.Popen) else ():
                if pipe is not None:
                    pipe.close()
        self._streams.clear()
        self._processes.clear()
        self._was_started, self._kill_at = False, math.inf

    # Reports.

    def _report(self, **report: Any) -> None:
        self._unsent += json.dumps(report).encode() + b"\n"

    def _watch_reports(self) -> None:
        """Register for writing when there are reports, and for reading while there are not too many."""
        registered = self._selector.get_map()
        wanted = {self._reports: bool(self._unsent)}
        wanted |= dict.fromkeys(self._streams, len(self._unsent) < _MOST_UNSENT)
        for descriptor, is_wanted in wanted.items():
            if is_wanted and descriptor not in registered:
                is_report = descriptor == self._reports
                do = self._send if is_report else functools.partial(self._read, descriptor)
                self._selector.register(descriptor, selectors.EVENT_WRITE if is_report else selectors.EVENT_READ, do)
            elif not is_wanted and descriptor in registered:
                self._selector.unregister(descriptor)

    def _send(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._reports, self._unsent)]
        except BlockingIOError:
            return
        except BrokenPipeError:
            # The launcher is gone.
            self._unsent.clear()
            self._be_orphan()


class _Stream:
    """One output of a process, split into lines.

    Of a line that is overwritten, as progress bars do by a carriage return, each state is a line, but only the last of
    those that arrive together.

    Attributes:
        rank: the process.
        number: 1 is its output, 2 its standard error, 3 its progress.
        is_owned: whether the agent closes the descriptor; otherwise a `subprocess.Popen` does.
    """

    def __init__(self, rank: int, number: int, *, is_owned: bool = False) -> None:
        self.rank = rank
        self.number = number
        self.is_owned = is_owned
        self._rest = b""

    def lines(self, data: bytes) -> list[bytes]:
        """Return the complete lines; at the end of the data, also an incomplete one."""
        *whole, rest = (self._rest + data).replace(b"\r\n", b"\n").split(b"\n")
        self._rest = rest
        if not data or len(rest) >= _LONGEST_LINE or rest.endswith(b"\r"):
            whole, self._rest = [*whole, rest] if rest else whole, b""
        return [line.rstrip(b"\r").rpartition(b"\r")[2] for line in whole]


class MemoryDirectory:
    """A directory in memory that an agent owns and has locked; those of agents that were killed are removed.

    Args:
        path: of the directory; the names of all begin with `MEMORY_PREFIX`.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        parent, prefix = os.path.dirname(path), os.path.basename(path).rpartition("-")[0] + "-"
        for name in os.listdir(parent):
            if (
                name.startswith(prefix)
                and name != os.path.basename(path)
                and self._lock(os.path.join(parent, name)) is not None
            ):
                shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
        os.makedirs(path, mode=0o700, exist_ok=True)
        self._descriptor = self._lock(path)

    def remove(self) -> None:
        """Remove the directory, with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    @staticmethod
    def _lock(path: str) -> int | None:
        """Lock a directory until this process ends; return None if another process has locked it."""
        descriptor = None
        try:
            descriptor = os.open(path, os.O_RDONLY)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            # It is locked, somebody else's, or was removed just now.
            if descriptor is not None:
                os.close(descriptor)
            return None
        return descriptor


def main() -> None:
    """Run an agent on standard input and output."""
    # Other output must not get between reports.
    reports = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.set_inheritable(reports, False)
    Agent(sys.stdin.fileno(), reports).run()
