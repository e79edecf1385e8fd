"""Callbacks of tensorpack that tpack has under another name, or for its scripts alone."""

import os
import pdb  # noqa: T100 (it is what the callback is for)
from typing import Any, NoReturn

from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.experiment_tracker import CometMonitor
from tpack.errors import ConfigError, DependencyError
from tpack.legacy.table import say
from tpack.utils import logger
from tpack.utils.lazy import import_optional

_SHELLS = ("ipython", "pdb")


class InjectShell(Callback):
    """Open a shell after an epoch if a file exists; the callback is ``self`` there, and the trainer ``trainer``.

    Args:
        file: the path of the file.
        shell: ``"ipython"`` or ``"pdb"``.

    Raises:
        ConfigError: ``shell`` is another value.
    """

    def __init__(self, file: str = "INJECT_SHELL.tmp", shell: str = "ipython") -> None:
        if shell not in _SHELLS:
            raise ConfigError(f"InjectShell got shell={shell!r}: expected 'ipython' or 'pdb'")
        self._file, self._shell = file, shell
        logger.info(f"Create the file {file!r} to open a shell of {shell} after an epoch")

    def _trigger(self) -> None:
        if os.path.isfile(self._file):
            self._open()

    def _open(self) -> None:
        trainer = self.trainer  # noqa: F841 (a name in the shell)
        if self._shell == "ipython":
            import_optional("IPython", "notebook").embed()
        else:
            pdb.set_trace()  # noqa: T100

    def _after_train(self) -> None:
        if os.path.isfile(self._file):
            os.unlink(self._file)


class CometMLMonitor(CometMonitor):
    """The older name of `CometMonitor`, with the arguments of Comet's ``Experiment``.

    Args:
        experiment: the experiment that the program began before it imported tpack, which is continued.
        tags: of the experiment.
        **kwargs: ``project_name``, ``workspace`` and others, which are not used.
    """

    def __init__(self, experiment: Any = None, tags: list[str] | None = None, **kwargs: Any) -> None:
        say("CometMLMonitor", "CometMonitor")
        super().__init__(kwargs.get("project_name"), workspace=kwargs.get("workspace"), tags=tags or ())


def TFLocalCLIDebugHook(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: N802
    """Raise an error: TensorFlow 2 has no such debugger.

    Raises:
        DependencyError: Always; it names the replacement.
    """
    raise DependencyError(
        "TFLocalCLIDebugHook needs the debugger of TensorFlow 1 in a terminal, which TensorFlow 2 does not have: use "
        "CheckNumerics(), DumpTensors([...]) or docs/debugging.md"
    )
