"""tpack: a trainer framework for graph-mode TensorFlow, from one device to many by changing one line.

The everyday names of all packages are here, so that ``from tpack import *`` gives a training script what it needs, also
modules such as ``summary``, as that of tensorpack did. Each is loaded when it is first used: ``import tpack`` alone is
quick, and loads no TensorFlow.
"""

from tpack.public_names import FOR_STAR, names_by_package
from tpack.utils.lazy import attach
from tpack.version import __version__ as __version__

__getattr__, _list_names, _today = attach(__name__, names_by_package())

# Scripts that were written for tensorpack import everything, too.
__all__ = [*_today, *FOR_STAR]


def __dir__() -> list[str]:
    return sorted({*_list_names(), *FOR_STAR})
