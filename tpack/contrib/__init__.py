"""tensorpack's import paths for what it called contrib: ``tpack.contrib.keras``."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
