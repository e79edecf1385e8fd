"""The command line: ``tpack COMMAND``, one module for each command."""

from tpack.cli.main import main
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = ["main"]
