"""Worker processes: how they start, what they run, how they end."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
