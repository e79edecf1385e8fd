"""The command line: ``tpack COMMAND``, one module for each command."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {"main": ("main",)})
