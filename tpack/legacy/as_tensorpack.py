"""``import tensorpack`` for unedited scripts: each module of tensorpack is the module of tpack with its path.

They are the same modules, not copies: tpack sees the changes of a script to ``tensorpack.utils.logger``. Modules of
tensorpack that tpack does not have are those of `tpack.legacy`.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from tpack.utils.renames import advice_for_lost_name

_THEIRS, _OURS = "tensorpack", "tpack"


def install_as_tensorpack() -> None:
    """Make ``import tensorpack`` and imports of its modules give tpack's, in this process and its workers.

    Call it before the first import of ``tensorpack``; or run an unchanged script by ``python -m tpack.as_tensorpack
    train.py``. An installed tensorpack is ignored. Calling it again changes nothing.

    Raises:
        ImportError: Another ``tensorpack`` was imported already.

    Example:
        tpack.install_as_tensorpack()
        from tensorpack.tfutils.summary import add_moving_summary
    """
    if is_installed():
        return
    loaded = sys.modules.get(_THEIRS)
    if loaded is not None:
        raise ImportError(
            f"tensorpack was imported already, from {getattr(loaded, '__file__', None) or 'somewhere'}: call "
            "tpack.install_as_tensorpack() before the first import of tensorpack"
        )
    # Before all others, also before an installed tensorpack.
    sys.meta_path.insert(0, _Finder())


def is_installed() -> bool:
    """Tell whether ``import tensorpack`` gives tpack in this process."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds tensorpack's modules among tpack's."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module of tensorpack; None for other modules, and for those that tpack does not have."""
        if fullname != _THEIRS and not fullname.startswith(f"{_THEIRS}."):
            return None
        ours = _ours(fullname)
        if ours not in sys.modules and importlib.util.find_spec(ours) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return the module of tpack."""
        module = importlib.import_module(_ours(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Keep the module of tpack unchanged: undo the changes of Python's import system."""
        module.__spec__ = getattr(module.__spec__, "loader_state", None)


def _ours(name: str) -> str:
    return _OURS + name.removeprefix(_THEIRS)


def run_script(arguments: Sequence[str] | None, usage: str, install: Callable[[], None]) -> int:
    """Run a script after ``install``, as ``python SCRIPT`` would run it, and return the exit code.

    Args:
        arguments: the script and its arguments; None means those of the command line.
        usage: what is shown if there is no script; the code is 2 then.
        install: changes what the script imports.

    Raises:
        ImportError: From ``install``.
        AttributeError: The script wants a name of TensorFlow 1 of TensorFlow 2.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0].startswith("-"):
        sys.stderr.write(f"{usage}\n")
        return 0 if given[:1] in (["-h"], ["--help"]) else 2
    script = given[0]
    if not os.path.isfile(script):
        sys.stderr.write(f"{usage}\n{script!r} is no file\n")
        return 2
    install()
    sys.argv = given
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except AttributeError as error:
        advice = advice_for_lost_name(error, script)
        if advice is None:
            raise
        raise AttributeError(advice) from error
    return 0
