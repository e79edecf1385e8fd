"""tpack: a trainer framework for graph-mode TensorFlow, from one device to many by changing one line."""

from tpack.version import __version__

__all__ = ["__version__"]
