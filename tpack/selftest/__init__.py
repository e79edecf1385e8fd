"""``tpack selftest``: proofs on the devices of a machine that training works there, and how fast it is."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
