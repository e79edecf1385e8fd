"""``import horovod.tensorflow`` for unedited scripts: each module of Horovod is one of `tpack.horovod`, not a copy."""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

_MODULES = {
    "horovod.tensorflow": "tpack.horovod",
    "horovod.tensorflow.compression": "tpack.horovod.compression",
    "horovod.tensorflow.functions": "tpack.horovod",
    "horovod.tensorflow.mpi_ops": "tpack.horovod",
    "horovod.common.process_sets": "tpack.horovod.process_sets",
    "horovod.common.util": "tpack.horovod.operations",
    "horovod.common.exceptions": "tpack.horovod.errors",
}
_PACKAGES = ("horovod", "horovod.common")


def install_as_horovod() -> None:
    """Make ``import horovod.tensorflow`` give `tpack.horovod`, in this process.

    Call it before the first import of ``horovod``; or run an unchanged script by ``python -m tpack.as_horovod
    train.py``. An installed Horovod is ignored. Calling it again changes nothing.

    Raises:
        ImportError: Another ``horovod`` was imported already.

    Example:
        tpack.install_as_horovod()
        import horovod.tensorflow as hvd
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    loaded = sys.modules.get("horovod")
    if loaded is not None:
        raise ImportError(
            f"horovod was imported already, from {getattr(loaded, '__file__', None) or 'somewhere'}: call "
            "tpack.install_as_horovod() before the first import of horovod"
        )
    sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds Horovod's modules among tpack's."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module of Horovod; None for other modules.

        Raises:
            ImportError: It is a part of Horovod that tpack does not have.
        """
        if fullname in _PACKAGES or fullname in _MODULES:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname in _PACKAGES)
        if fullname.startswith("horovod."):
            raise ImportError(
                f"tpack has no {fullname}: expected horovod.tensorflow; docs/from_horovod.md has what to use",
                name=fullname,
            )
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Return the module of tpack; None for a package that only holds others."""
        if spec.name in _PACKAGES:
            return None
        module = importlib.import_module(_MODULES[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Keep the module of tpack unchanged: undo the changes of Python's import system."""
        if module.__name__ not in _PACKAGES:
            module.__spec__ = getattr(module.__spec__, "loader_state", None)
