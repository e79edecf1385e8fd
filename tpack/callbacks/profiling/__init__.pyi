"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.callbacks.profiling.graph_profiler import GraphProfiler as GraphProfiler
from tpack.callbacks.profiling.profile import Profile as Profile
