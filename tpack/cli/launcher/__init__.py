"""What ``tpack launch`` is made of: a plan of processes, an agent on each machine that runs them, and their output."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
