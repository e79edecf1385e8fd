"""What runs a step: the session with hooks, its cached callables, its executor."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
