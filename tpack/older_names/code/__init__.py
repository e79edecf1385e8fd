"""What is in tpack for scripts of tensorpack's older versions alone: renamed classes, and small things that it had."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
