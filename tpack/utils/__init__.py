"""Logging, files, time, statistics, threads, random numbers, serialization; without TensorFlow.

The names that scripts know from ``tensorpack.utils`` are here; everything else is imported from its module. The package
is lazy, because every other package imports a module of it and none should pay for all.
"""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "argtools": ("execute_only_once",),
        "env": ("change_env",),
        "logger": (),
        "progress": ("get_tqdm",),
        "rng": ("fix_rng_seed", "get_rng"),
        "timer": ("humanize_time_delta",),
    },
)
