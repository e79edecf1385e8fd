"""Large copies in a new worker go past the processor's cache, which makes them up to twice as fast.

A worker copies large arrays into memory that it has not touched for a while, and does not read them again. A usual
store would first load what is there into the cache, only to overwrite it. The C library knows another kind of store,
which it uses by default for copies of about the cache's size and more; in a worker it uses it from 4 MiB on. It reads
its setting when a process begins, so it can be given to new interpreters and not to forks.
"""

import platform
from collections.abc import Mapping, MutableMapping

_VARIABLE = "GLIBC_TUNABLES"
_NAME = "glibc.cpu.x86_non_temporal_threshold"
_SETTING = f"{_NAME}=0x400000"


def with_streaming_stores(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for a new worker.

    Args:
        environment: those of this process. A setting of the same that is in them is kept.
    """
    variables = dict(environment)
    settings = variables.get(_VARIABLE, "")
    if platform.machine() in ("x86_64", "AMD64") and _NAME not in settings:
        variables[_VARIABLE] = f"{settings}:{_SETTING}" if settings else _SETTING
    return variables


def without_streaming_stores(environment: MutableMapping[str, str]) -> None:
    """Take the setting out of a worker's variables, so that programs that it starts do not get it."""
    settings = [each for each in environment.get(_VARIABLE, "").split(":") if each not in ("", _SETTING)]
    if settings:
        environment[_VARIABLE] = ":".join(settings)
    else:
        environment.pop(_VARIABLE, None)
