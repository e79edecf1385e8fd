"""Memory that a worker frees stays with it, so that the next array of the same size needs no new pages.

The C library gives free memory at the end of its heap back to the system, and gets it again, page by page and zeroed,
with the next allocation. A worker that decodes images does that with each of them, which costs a third of the time of
decoding. Whether a program does it depends on what happens to lie behind; a worker keeps some memory in any case. The
limits are those that the C library comes to by itself when an array of 32 MiB is freed.
"""

import ctypes
import os
from collections.abc import Mapping

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_TRIM_BYTES, _MMAP_BYTES = 64 * 1024 * 1024, 32 * 1024 * 1024
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")
_TUNABLES = "glibc.malloc."


def keep_freed_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Let this process keep up to 64 MiB of memory that it has freed.

    Args:
        environment: the environment variables; settings of the C library's heap that are in them are kept.

    Returns:
        Whether the C library took it; another one than glibc does not know this.
    """
    if any(name in environment for name in _VARIABLES) or _TUNABLES in environment.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    answers = mallopt(_TRIM_THRESHOLD, _TRIM_BYTES), mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
    return all(answers)
