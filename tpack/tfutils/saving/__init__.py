"""How checkpoints get out of the way of training: copies of what is saved, and a thread that writes them."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
