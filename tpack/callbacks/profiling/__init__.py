"""Profiles of the time and the memory of steps."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {"graph_profiler": ("GraphProfiler",), "profile": ("Profile",)})
