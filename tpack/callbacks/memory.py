"""How much memory the machine has left."""

from __future__ import annotations

import psutil

from tpack.callbacks.base import Callback


class HostMemoryTracker(Callback):
    """Report, when triggered, the memory that is free on the machine, as ``HostFreeMemory (GB)``.

    Memory that the system would give back when it is needed, such as its cache of files, counts as free.
    """

    _chief_only = False

    def _trigger(self) -> None:
        self.trainer.monitors.put_scalar("HostFreeMemory (GB)", psutil.virtual_memory().available / 1e9)
