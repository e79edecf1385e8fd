"""The execution of a step: the session with hooks, its cached callables, its executor."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
