"""What a test may leave behind: nothing. A snapshot of the process before a test, and what is new after it.

Looked at are processes, non-daemon threads, listening sockets and blocks of shared memory, and of all of them only what
this process made, itself or through processes that it started: other programs on the machine come and go as they like;
and whether this process adopts others.
A process is this one's if it descends from it, or if its environment carries this process's marker (one whose parent
has ended has another parent by now); a block of shared memory is, if its name carries the marker. TensorFlow's own
threads are no Python threads and are not seen. A process or thread that is about to end is given some time to do so.
"""

import ctypes
import multiprocessing
import os
import socket
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker, shared_memory
from pathlib import Path

import psutil

SHARED_MEMORY = Path("/dev/shm")
# From linux/prctl.h.
_PR_GET_CHILD_SUBREAPER = 37
_POLL_SECS = 0.05
_VARIABLE = "TPACK_TEST_PROCESS"

# Each of these is started once in a process, at its first use, and stays.
LASTING_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "tests.helpers.preloaded")


def mark(marker: str | None = None) -> None:
    """Put a marker into the environment of the processes that this one starts, and into the names that they make.

    Args:
        marker: The marker; None takes that of the process that started this one, or a new one.
    """
    marker = marker or os.environ.get(_VARIABLE) or new_marker()
    os.environ[_VARIABLE] = marker
    tempfile.template = marker
    # Python has no public way to say what it calls its own blocks and semaphores.
    shared_memory._SHM_NAME_PREFIX = f"/{marker}"
    multiprocessing.current_process()._config["semprefix"] = f"/{marker}"


def new_marker() -> str:
    """Return a marker for this process, of at most ten characters: a block's name has 14."""
    return f"t{os.getpid()}x"


def marked_blocks() -> frozenset[str]:
    """Return the names of the blocks of shared memory that carry this process's marker."""
    marker = os.environ.get(_VARIABLE, new_marker())
    return frozenset(path.name for path in SHARED_MEMORY.glob(f"*{marker}*"))


@dataclass(frozen=True)
class Snapshot:
    """What there is at one moment, each thing by what identifies it.

    Attributes:
        pids: All processes of the machine; whose a new one is, is asked when there is one.
        threads: The non-daemon threads of this process.
        listening: The addresses at which this process listens.
        shared_memory: The names of marked blocks of shared memory.
        adopts_orphans: Whether this process becomes the parent of descendants whose parent ends.
    """

    pids: frozenset[int]
    threads: frozenset[threading.Thread]
    listening: frozenset[tuple[str, int]]
    shared_memory: frozenset[str]
    adopts_orphans: bool

    @classmethod
    def take(cls) -> "Snapshot":
        """Return what there is now."""
        return cls(
            pids=frozenset(psutil.pids()),
            threads=frozenset(thread for thread in threading.enumerate() if not thread.daemon),
            listening=frozenset() if _tensorflow_listens() else _listening(),
            shared_memory=marked_blocks(),
            adopts_orphans=_adopts_orphans(),
        )

    def leaks(self, *, timeout_secs: float = 5.0) -> list[str]:
        """Return one line for each thing that is there now, was not there in this snapshot, and does not end by itself.

        Args:
            timeout_secs: How long processes and threads may take to end, all of them together.
        """
        deadline = time.monotonic() + timeout_secs
        now = Snapshot.take()
        new_pids = now.pids - self.pids
        alive = _own_processes(new_pids)
        while (alive := [process for process in alive if _is_alive(process)]) and time.monotonic() < deadline:
            time.sleep(_POLL_SECS)
        # By number a helper is known at once; by its command line, which a young process lacks, only later.
        found = [f"child process {child.pid}: {_command(child)}" for child in alive if not _is_lasting_helper(child)]
        for thread in now.threads - self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                found.append(f"non-daemon thread {thread.name!r}")
        # Taken again: what a thread or process held is given back when it ends.
        now = Snapshot.take()
        found += [f"listening socket {host}:{port}" for host, port in now.listening - self.listening]
        new_blocks = now.shared_memory - self.shared_memory
        # A program that was killed leaves its blocks to its resource tracker, which needs a moment.
        while new_blocks and time.monotonic() < deadline:
            time.sleep(_POLL_SECS)
            new_blocks = new_blocks & marked_blocks()
        found += [f"shared-memory block {name}" for name in new_blocks]
        if now.adopts_orphans and not self.adopts_orphans:
            found.append("adoption of processes whose parent ends")
        return sorted(found)


def _own_processes(pids: frozenset[int]) -> list[psutil.Process]:
    """Return those of the processes that this one started, itself or through others."""
    own: list[psutil.Process] = []
    for pid in pids:
        try:
            process = psutil.Process(pid)
            if _is_own(process) and not _is_lasting_helper(process):
                own.append(process)
        except psutil.NoSuchProcess:  # It has ended.
            continue
    return own


def _is_own(process: psutil.Process) -> bool:
    if any(parent.pid == os.getpid() for parent in process.parents()):
        return True
    try:
        return process.environ().get(_VARIABLE) == os.environ.get(_VARIABLE, new_marker())
    except psutil.AccessDenied:  # Somebody else's.
        return False


def _adopts_orphans() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    found = ctypes.c_int()
    ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0)
    return bool(found.value)


def _listening() -> frozenset[tuple[str, int]]:
    """Return the addresses at which this process listens.

    Each of its sockets is asked. The kernel's list of all connections, which psutil reads, takes milliseconds, and this
    is done for each test.
    """
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(descriptor))) as copy:
                is_internet = copy.family in (socket.AF_INET, socket.AF_INET6)
                if is_internet and copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    found.add(copy.getsockname()[:2])
        except OSError:  # Another thread has closed it.
            continue
    return frozenset(found)


def _is_alive(process: psutil.Process) -> bool:
    """Whether a process has not ended. Its exit code, which can be had only once, is left to whoever started it."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _tensorflow_listens() -> bool:
    """Whether TensorFlow itself opens sockets: for collective operations, 2.16 does and keeps them, 2.21 does not."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and tuple(map(int, tensorflow.__version__.split(".")[:2])) < (2, 21)


def _is_lasting_helper(process: psutil.Process) -> bool:
    # By number first: a helper that was started just now may have no command line yet.
    own = (resource_tracker._resource_tracker._pid, forkserver._forkserver._forkserver_pid)
    return process.pid in own or any(name in _command(process) for name in LASTING_HELPERS)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()) or process.name()
    except psutil.Error:
        return "(ended)"
