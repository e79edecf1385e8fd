"""tpack: a trainer framework for graph-mode TensorFlow, from one device to many by changing one line.

The everyday names of all packages are here, so that ``from tpack import *`` gives a training script what it needs: of
modules only ``dataset``, ``imgaug`` and ``logger``, and others, such as ``tpack.summary``, by name. Each is loaded when
it is first used: ``import tpack`` alone is quick, and loads no TensorFlow.
"""

from tpack.public_names import FOR_STAR, ONLY_BY_NAME, names_by_package
from tpack.utils.lazy import attach
from tpack.version import __version__ as __version__

__getattr__, _list_names, _today = attach(__name__, names_by_package())

# Scripts that were written for older versions of tensorpack import everything, too.
__all__ = [name for name in (*_today, *FOR_STAR) if name not in ONLY_BY_NAME]


def __dir__() -> list[str]:
    return sorted({*_list_names(), *FOR_STAR})
