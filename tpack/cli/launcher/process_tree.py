"""Process tree below a process, which keeps it together and ends it.

On Linux a process can become the parent of every descendant whose own parent ends, so that none escapes.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable

import psutil

from tpack.utils.concurrency import enable_death_signal

# From linux/prctl.h.
_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECS = 0.02
# What the kernel does not end within that time, it waits for something that no signal interrupts.
_GIVE_UP_SECS = 10.0


def adopt_orphans(adopts: bool = True) -> bool:
    """Become the parent of descendants whose parent ends, or no longer; return whether the system can do that."""
    if not sys.platform.startswith("linux"):
        return False
    return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0) == 0)


def die_with_parent(parent: int) -> None:
    """Get this process killed when its parent ends; called in a child between fork and exec."""
    enable_death_signal(signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def descendants(is_wanted: Callable[[psutil.Process], bool] = lambda process: True) -> list[psutil.Process]:
    """Return the running processes below this one."""
    found = []
    for pid in _below(os.getpid(), _parents()):
        try:
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE and is_wanted(process):
                found.append(process)
        except psutil.Error:
            # It has ended meanwhile, or become somebody else's.
            continue
    return found


def _parents() -> dict[int, int]:
    """Return the parent of each process, by number, without comparing times, since the clock may be set."""
    parents: dict[int, int] = {}
    unread = psutil.pids()
    while unread:
        read = {pid: parent for pid in unread if (parent := _parent(pid)) is not None}
        is_news = any(parents.get(pid) != parent for pid, parent in read.items())
        parents.update(read)
        # A parent that has ended since its child was read has left it to another.
        unread = [pid for pid, parent in parents.items() if parent and parent not in parents] if is_news else []
    return parents


def _parent(pid: int) -> int | None:
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        # It has ended meanwhile, or the system shows it to its owner alone.
        return None


def _below(root: int, parents: dict[int, int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        # A number that was given anew while they were read must not lead round in a circle.
        found += [child for child in children.get(pid, []) if child not in found]
    return found[1:]


def end_all(find: Callable[[], Iterable[psutil.Process]], grace_secs: float) -> list[int]:
    """End the processes that ``find`` returns, by SIGTERM and after a grace period by SIGKILL; return their ids."""
    deadline = time.monotonic() + grace_secs
    seen: list[int] = []
    while (running := list(find())) and time.monotonic() < deadline + _GIVE_UP_SECS:
        is_late = time.monotonic() >= deadline
        for process in running:
            if is_late or process.pid not in seen:
                _send(process, signal.SIGKILL if is_late else signal.SIGTERM)
        seen += [process.pid for process in running if process.pid not in seen]
        reap_orphans()
        time.sleep(_POLL_SECS)
    return seen


def reap_orphans(own: Collection[int] = ()) -> None:
    """Reap adopted processes that have ended, up to the first child of ``own``, which is waited for elsewhere."""
    if not hasattr(os, "waitid"):
        # Such a system does not let a process adopt others either.
        return
    try:
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid in own:
                return
            os.waitpid(ended.si_pid, 0)
    except ChildProcessError:
        # There is no child at all.
        return


def _send(process: psutil.Process, signum: int) -> None:
    try:
        process.send_signal(signum)
    except psutil.Error:
        # It has just ended.
        return
