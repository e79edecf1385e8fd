"""The control channel between the processes of a job: server, client and messages."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
