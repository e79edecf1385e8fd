"""The log of a run: lines on standard error, and in ``log.log`` of the run's directory once it has one.

The module is used as one would a logger: ``from tpack.utils import logger`` and ``logger.info("...")``. Behind it is
the standard library's logger named ``"tpack"``. Importing attaches nothing: the handler comes with the first line. The
root logger is left alone and the lines do not propagate to it, so that a script's own logging set-up does not print
them twice; who wants them elsewhere adds a handler to ``logging.getLogger("tpack")``.
"""

import functools
import logging
import os
import shlex
import sys
import threading
from typing import Any

from tpack.errors import ConfigError
from tpack.utils.log_dir import check_action, prepare_log_dir
from tpack.utils.log_format import LineFormatter, StderrHandler

__all__ = [
    "addFilter",
    "auto_set_dir",
    "close_logger_dir",
    "critical",
    "debug",
    "error",
    "exception",
    "get_logger_dir",
    "info",
    "log",
    "setLevel",
    "set_logger_dir",
    "warn",
    "warning",
]

LOG_FILE = "log.log"
_LOCK = threading.RLock()


class _Directory:
    """The directory of the run and the handler that writes its log file; one for the process, as the logger is."""

    path: str | None = None
    handler: logging.Handler | None = None


_directory = _Directory()


@functools.cache
def _logger() -> logging.Logger:
    """Return the logger, which gets its handler the first time."""
    logger = logging.getLogger("tpack")
    with _LOCK:
        if not any(isinstance(handler, StderrHandler) for handler in logger.handlers):
            logger.addHandler(StderrHandler())
        logger.propagate = False
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
    return logger


def _write(level: int, msg: object, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Log on behalf of whoever called the public function, whose file and line the record names."""
    options["stacklevel"] = options.get("stacklevel", 1) + 2
    _logger().log(level, msg, *args, **options)


def log(level: int, msg: object, *args: Any, **options: Any) -> None:
    """Log at a level of the logging module; arguments as those of ``logging.Logger.log``."""
    _write(level, msg, args, options)


def debug(msg: object, *args: Any, **options: Any) -> None:
    """Log what only a developer wants to read; hidden unless ``setLevel(logging.DEBUG)``."""
    _write(logging.DEBUG, msg, args, options)


def info(msg: object, *args: Any, **options: Any) -> None:
    """Log what happens."""
    _write(logging.INFO, msg, args, options)


def warning(msg: object, *args: Any, **options: Any) -> None:
    """Log what is probably not wanted, while the run goes on."""
    _write(logging.WARNING, msg, args, options)


def warn(msg: object, *args: Any, **options: Any) -> None:
    """Log a warning; the short name that scripts use."""
    _write(logging.WARNING, msg, args, options)


def error(msg: object, *args: Any, **options: Any) -> None:
    """Log an error."""
    _write(logging.ERROR, msg, args, options)


def exception(msg: object, *args: Any, **options: Any) -> None:
    """Log an error with the traceback of the exception that is being handled."""
    _write(logging.ERROR, msg, args, {"exc_info": True, **options})


def critical(msg: object, *args: Any, **options: Any) -> None:
    """Log an error that ends the run."""
    _write(logging.CRITICAL, msg, args, options)


def setLevel(level: int | str) -> None:  # noqa: N802 (the logging module's name, which scripts use)
    """Show only lines of this level and above; ``logging.INFO`` until then."""
    _logger().setLevel(level)


def addFilter(filter: Any) -> None:  # noqa: N802 (the logging module's name, which scripts use)
    """Leave out the lines that a filter refuses; it is what ``logging.Logger.addFilter`` takes."""
    _logger().addFilter(filter)


def get_logger_dir() -> str | None:
    """Return the directory of the run, or None if none was set."""
    return _directory.path


def set_logger_dir(dirname: str | os.PathLike[str], action: str | None = None) -> None:
    """Set the directory of the run, where the log file, checkpoints and statistics go.

    Called again, it moves the log to the new directory. Called again with the directory that is already set and no
    action, it changes nothing: the content is this run's own.

    Args:
        dirname: the directory; made if it is not there.
        action: what to do with a directory that has content: ``"b"`` or None moves it aside, ``"d"`` deletes it,
            ``"k"`` keeps it and its content, ``"n"`` makes another one, ``"q"`` or ``"raise"`` refuses.

    Raises:
        ConfigError: The action is unknown, or the directory cannot be used under it.
    """
    check_action(action)
    path = os.path.abspath(os.fspath(dirname))
    with _LOCK:
        if action is None and path == _directory.path and os.path.isdir(path):
            return
        path = prepare_log_dir(path, action)
        close_logger_dir()
        handler = logging.FileHandler(os.path.join(path, LOG_FILE), encoding="utf-8")
        handler.setFormatter(LineFormatter())
        _logger().addHandler(handler)
        _directory.path, _directory.handler = path, handler
    info("Log directory %s; command: %s", path, shlex.join([sys.executable, *sys.argv]))


def auto_set_dir(action: str | None = None, name: str | None = None) -> None:
    """Set the directory of the run to ``train_log/<name of the script>``.

    Args:
        action: what to do if it exists, as in ``set_logger_dir``.
        name: appended to the script's name, to tell apart several runs of one script.

    Raises:
        ConfigError: There is no script, as in an interactive session; or ``set_logger_dir`` refuses.
    """
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is None:
        raise ConfigError(
            "auto_set_dir() names the directory after the script, but there is none: use set_logger_dir()"
        )
    stem = os.path.splitext(os.path.basename(script))[0]
    separator = "_" if os.name == "nt" else ":"
    set_logger_dir(os.path.join("train_log", f"{stem}{separator}{name}" if name else stem), action)


def close_logger_dir() -> None:
    """Close the log file and forget the directory of the run; lines go to standard error only."""
    with _LOCK:
        handler = _directory.handler
        _directory.path = _directory.handler = None
        if handler is not None:
            _logger().removeHandler(handler)
            handler.close()


def __getattr__(name: str) -> Any:
    """Give ``logger.logdir``, which is what ``get_logger_dir()`` returns at that moment."""
    if name == "logdir":
        return get_logger_dir()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
