"""What a test may leave behind: nothing. A snapshot of the process before a test, and what is new after it.

Looked at are child processes, non-daemon threads, listening sockets and blocks of shared memory. TensorFlow's own
threads are no Python threads and are not seen. A process or thread that is about to end is given some time to do so.
"""

import sys
import threading
import time
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import psutil

SHARED_MEMORY = Path("/dev/shm")
_POLL_SECS = 0.05

# Each of these is started once in a process, at its first use of shared memory or of a "forkserver", and stays.
LASTING_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


@dataclass(frozen=True)
class Snapshot:
    """What the current process holds at one moment, each thing by what identifies it."""

    children: frozenset[psutil.Process]
    threads: frozenset[threading.Thread]
    listening: frozenset[tuple[str, int]]
    shared_memory: frozenset[str]

    @classmethod
    def take(cls) -> "Snapshot":
        """Return what the current process holds now."""
        process = psutil.Process()
        connections = process.net_connections("inet")
        return cls(
            children=frozenset(child for child in process.children(recursive=True) if not _is_lasting_helper(child)),
            threads=frozenset(thread for thread in threading.enumerate() if not thread.daemon),
            listening=frozenset(
                (c.laddr.ip, c.laddr.port)
                for c in connections
                if c.status == psutil.CONN_LISTEN and not _tensorflow_listens()
            ),
            shared_memory=frozenset(path.name for path in SHARED_MEMORY.glob("*")),
        )

    def leaks(self, *, timeout_secs: float = 5.0) -> list[str]:
        """Return one line for each thing that is there now, was not there in this snapshot, and does not end by itself.

        Args:
            timeout_secs: How long processes and threads may take to end, all of them together.
        """
        deadline = time.monotonic() + timeout_secs
        now = Snapshot.take()
        _, alive = psutil.wait_procs(now.children - self.children, timeout=timeout_secs)
        found = [f"child process {child.pid}: {_command(child)}" for child in alive if not _is_lasting_helper(child)]
        for thread in now.threads - self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                found.append(f"non-daemon thread {thread.name!r}")
        # Taken again: what a thread or process held is given back when it ends.
        now = Snapshot.take()
        found += [f"listening socket {host}:{port}" for host, port in now.listening - self.listening]
        new_blocks = [name for name in now.shared_memory - self.shared_memory if _is_left_behind(name)]
        # A neighbour's test that was killed leaves its blocks to its resource tracker, which needs a moment.
        while new_blocks and time.monotonic() < deadline:
            time.sleep(_POLL_SECS)
            new_blocks = [name for name in new_blocks if _is_left_behind(name)]
        found += [f"shared-memory block {name}" for name in new_blocks]
        return sorted(found)


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


def _is_left_behind(name: str) -> bool:
    """Whether the block stays and no process outside this one's family has it mapped, such as a neighbour's test."""
    family = {psutil.Process().pid, *(child.pid for child in psutil.Process().children(recursive=True))}
    for maps in Path("/proc").glob("[0-9]*/maps"):
        if int(maps.parent.name) in family:
            continue
        try:
            if f"{SHARED_MEMORY}/{name}" in maps.read_text():
                return False
        except OSError:  # The process ended, or belongs to somebody else.
            continue
    return (SHARED_MEMORY / name).exists()
