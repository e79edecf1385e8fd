"""A hyper-parameter that a person changes while training runs."""

from __future__ import annotations

import os

from tpack.callbacks.hyper_param import HyperParam
from tpack.callbacks.param_setters import HyperParamSetter
from tpack.errors import CallbackError
from tpack.utils import logger


class HumanHyperParamSetter(HyperParamSetter):
    """Set a hyper-parameter to what a file says, before training and after each epoch.

    The file has lines of the form ``name: value``. It need not exist, and may name other hyper-parameters too. Delete
    the line, or the file, to give the hyper-parameter back to other callbacks.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        file_name: the file, in the logger's directory unless it is an absolute path.
        enable: set to False to leave the hyper-parameter alone, and still report it.
    """

    def __init__(self, param: HyperParam | str, file_name: str = "hyper.txt", *, enable: bool = True) -> None:
        super().__init__(param, enable=enable)
        self._file_name = file_name

    def _setup_graph(self) -> None:
        super()._setup_graph()
        directory = logger.get_logger_dir()
        if directory is None and not os.path.isabs(self._file_name):
            raise CallbackError(f"{self} looks for {self._file_name} in the logger's directory, and none is set")
        self._path = os.path.join(directory or "", self._file_name)

    def _get_value_to_set(self) -> float | None:
        try:
            with open(self._path, encoding="utf-8") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            logger.warning(f"{self} cannot read {self._path}: {error}")
            return None
        return self._value_in(lines)

    def _value_in(self, lines: list[str]) -> float | None:
        """Return the value in the last line about this hyper-parameter."""
        for line in reversed(lines):
            name, _, text = line.rpartition(":")
            if name.strip() == self.param.readable_name:
                try:
                    return float(text)
                except ValueError:
                    logger.warning(f"{self._path} should have lines of the form 'name: value', got {line!r}")
                    return None
        return None
