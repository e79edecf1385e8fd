"""How data points travel between processes: slots of shared memory, and what is written into them."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
