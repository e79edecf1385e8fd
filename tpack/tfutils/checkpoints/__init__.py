"""How checkpoints get out of the way of training: copies of what is saved, and a thread that writes them."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
