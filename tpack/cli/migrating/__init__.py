"""How sources are rewritten for tpack: what is called differently, what a person must look at, and the rewriting."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
