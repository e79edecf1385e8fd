"""Parts of ``tpack launch``: a plan of processes, an agent on each machine that runs them, and their output."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
