"""How data points travel between processes: slots of shared memory, and what is written into them."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
