"""The variables of strategies: mirrored ones, and those local to a tower."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
