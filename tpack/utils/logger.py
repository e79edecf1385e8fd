"""The log of a run: lines on standard error, and in ``log.log`` of the run's directory once it has one.

In a notebook they go to standard output: there, what is on standard error looks like what failed.

The module is used as a logger: ``from tpack.utils import logger`` and ``logger.info("...")``. Behind it is the standard
library's logger named ``"tpack"``. The handler comes with the first line; lines do not propagate to the root logger, so
that a script's own logging set-up does not print them twice. Add handlers to ``logging.getLogger("tpack")``.

An existing directory is never a question on standard input, on which a batch job hangs. The default renames it, unless
it holds nothing but the log of a run that failed before its first step, which goes on.

A line has a time, a place in the code, and the message; warnings and errors carry a mark. Only a terminal gets colours.
"""

import functools
import importlib
import json
import logging
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tpack.errors import ConfigError
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_local_path, is_remote

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
_OF_FAILED_START = {LOG_FILE, "run.json"}
# What may be done with a log directory that has content, under its names.
_ACTIONS: dict[str | None, str] = {None: "b", "b": "b", "d": "d", "k": "k", "n": "n", "q": "q", "raise": "q"}
_GREEN, _YELLOW, _RED = "\033[32m", "\033[33m", "\033[31;1m"
_RESET = "\033[0m"
_LOCK = threading.RLock()
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
# Loaded when a directory of the run is set, and of these the last only for a URL.
_claims = LazyModule("tpack.utils.dir_lock")
_launch_env = LazyModule("tpack.utils.launch_env")
_remote = LazyModule("tpack.utils.remote.directories")


def log(level: int, msg: object, *args: object, **options: Any) -> None:
    """Log at a level of the logging module; arguments as those of ``logging.Logger.log``."""
    _write(level, msg, args, options)


def debug(msg: object, *args: object, **options: Any) -> None:
    """Log what only a developer wants to read; hidden unless ``setLevel(logging.DEBUG)``."""
    _write(logging.DEBUG, msg, args, options)


def info(msg: object, *args: object, **options: Any) -> None:
    """Log what happens."""
    _write(logging.INFO, msg, args, options)


def warning(msg: object, *args: object, **options: Any) -> None:
    """Log what is probably not wanted, while the run goes on."""
    _write(logging.WARNING, msg, args, options)


def warn(msg: object, *args: object, **options: Any) -> None:
    """Log a warning; the short name that scripts use."""
    _write(logging.WARNING, msg, args, options)


def error(msg: object, *args: object, **options: Any) -> None:
    """Log an error."""
    _write(logging.ERROR, msg, args, options)


def exception(msg: object, *args: object, **options: Any) -> None:
    """Log an error with the traceback of the exception that is being handled."""
    _write(logging.ERROR, msg, args, {"exc_info": True, **options})


def critical(msg: object, *args: object, **options: Any) -> None:
    """Log an error that ends the run."""
    _write(logging.CRITICAL, msg, args, options)


def log_once(message: str, func: str = "info") -> None:
    """Log a message, unless this function logged the same before.

    Raise a ConfigError for another function than "debug", "info", "warning", "error" and "critical".
    """
    if func not in _LEVELS:
        raise ConfigError(f"log_once got func={func!r}: expected one of {', '.join(_LEVELS)}")
    _log_new(message, func)


@functools.cache
def _log_new(message: str, func: str) -> None:
    """Log a message; the cache skips a second call. The record names the caller of ``log_once``."""
    _write(_LEVELS[func], message, (), {"stacklevel": 2})


def setLevel(level: int | str) -> None:  # noqa: N802 (the logging module's name, which scripts use)
    """Show only lines of this level and above; ``logging.INFO`` until then."""
    _logger().setLevel(level)


def addFilter(filter: logging.Filter | Callable[[logging.LogRecord], bool]) -> None:  # noqa: N802 (the logging module's name, which scripts use)
    """Leave out the lines that a filter refuses; it is what ``logging.Logger.addFilter`` takes."""
    _logger().addFilter(filter)


def get_logger_dir() -> str | None:
    """Return the local directory of the run, also of one on remote storage, or None if none was set."""
    return _directory.path


def set_logger_dir(dirname: str | os.PathLike[str], action: str | None = None) -> None:
    """Set the directory of the run, where the log file, checkpoints and statistics go.

    Processes launched together have one each: the chief the given one, others with ``-rank1`` and so on behind its
    name, a parameter server or an evaluator with ``-ps0`` or ``-evaluator0``.

    Called again, it moves the log to the new directory. Called with the present directory and no action, it changes
    nothing, unless a training of this process has it: then another one begins, as in another process.

    A training that follows another one, without a call in between, gets another directory, with the time in its name.

    A directory that another process trains in is neither moved nor deleted. What writes checkpoints or statistics into
    the directory claims it for this process until training ends.

    A directory on remote storage, such as ``s3://bucket/run``, is written by way of one on this machine, which
    `get_logger_dir` returns: see docs/saving.md.

    Args:
        dirname: the directory, made if it is not there; or a URL that fsspec knows.
        action: what to do with a directory that has content: ``"b"`` or None moves it aside, ``"d"`` deletes it,
            ``"k"`` keeps it and its content, ``"n"`` makes another one, ``"q"`` or ``"raise"`` refuses.

    Raises:
        ConfigError: The action is unknown, or the directory cannot be used under it, cannot be written, or would be
            moved or deleted while another process trains in it.
        DependencyError: What remote storage needs is not installed.
        RemoteError: Remote storage cannot be read or written.
    """
    _check_action(action)
    if is_remote(dirname):
        _set_remote_dir(f"{dirname}".rstrip("/") + _launch_env.log_suffix(os.environ), action)
        return
    path = os.path.abspath(check_local_path("set_logger_dir", "dirname", dirname)) + _launch_env.log_suffix(os.environ)
    with _LOCK:
        if action is None and path == _directory.path and os.path.isdir(path) and not has_trained_in(path):
            return
        try:
            path, aside = _prepare(path, action)
            handler = LogFileHandler(os.path.join(path, LOG_FILE), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"the log directory {path} cannot be used: {error}") from error
        _move_log(path, handler)
        _directory.aside = aside if action is None else None
    info("Log directory %s; command: %s", path, shlex.join([sys.executable, *sys.argv]))


def has_trained_in(path: str) -> bool:
    """Tell whether a training of this process has, or had, a directory since `set_logger_dir` gave it out."""
    return path in _directory.trained or bool(_claims.was_claimed(path))


def leave_trained_dir() -> None:
    """Change to a directory with the time in its name if a training of this process has the present one."""
    with _LOCK:
        path, remote = _directory.path, _directory.remote
        if path is None or not has_trained_in(path):
            return
        former = path if remote is None else remote.url
        named = _directory.named or former
        if remote is None:
            path = timestamped(named)
            os.makedirs(path)
            _move_log(path, LogFileHandler(os.path.join(path, LOG_FILE), encoding="utf-8"))
        else:
            _set_remote_dir(named, "n")
        _directory.named = named
    info("Another training of this process has %s: the log directory is %s.", former, _directory.path)


def begin_training() -> str | None:
    """Return the directory of a training that begins, which has it from now on; None if none was set."""
    leave_trained_dir()
    if _directory.path is not None:
        _directory.trained.add(_directory.path)
    return _directory.path


def take_back_dir() -> None:
    """Let the directory of the run be as if ``action="k"`` had been given, where no action was.

    What was moved aside is moved back, and files since go beside it or replace those of the same name. Raise a
    ConfigError if that fails.
    """
    with _LOCK:
        path, aside = _directory.path, _directory.aside
        if path is not None:
            _forget_training(path)
        if path is None or aside is None:
            return
        close_logger_dir()
        try:
            _put_beside(path, aside)
            os.rename(aside, path)
            handler = LogFileHandler(os.path.join(path, LOG_FILE), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"what is in {aside} cannot be taken back to {path}: {error}") from error
        _move_log(path, handler)
    info("What was in %s is in %s again, to go on with.", aside, path)


def _put_beside(source: str, target: str) -> None:
    """Move all files of a directory into another one, and remove it; the log goes behind the other log."""
    for folder, _, names in os.walk(source):
        into = os.path.join(target, os.path.relpath(folder, source))
        os.makedirs(into, exist_ok=True)
        for name in names:
            if folder == source and name == LOG_FILE:
                with open(os.path.join(source, name), "rb") as new, open(os.path.join(target, name), "ab") as log:
                    importlib.import_module("shutil").copyfileobj(new, log)
            else:
                os.replace(os.path.join(folder, name), os.path.join(into, name))
    importlib.import_module("shutil").rmtree(source)


def _set_remote_dir(url: str, action: str | None) -> None:
    """Do as `set_logger_dir` with a directory on remote storage."""
    with _LOCK:
        former = _directory.remote
        if former is not None and former.url == url:
            if action is None and not (former.has_trained or has_trained_in(former.path)):
                return
            close_logger_dir()
        remote = _remote.open_directory(url, _ACTIONS[action])
        _move_log(remote.path, LogFileHandler(os.path.join(remote.path, LOG_FILE), encoding="utf-8"), remote)
    command = shlex.join([sys.executable, *sys.argv])
    info("Log directory %s, on this machine %s; command: %s", remote.url, remote.path, command)


def _move_log(path: str, handler: logging.Handler, remote: Any = None) -> None:
    """Write the log to another directory from now on."""
    close_logger_dir()
    handler.setFormatter(LineFormatter())
    _logger().addHandler(handler)
    _directory.path, _directory.handler, _directory.remote, _directory.named = path, handler, remote, None
    _forget_training(path)


def _forget_training(path: str) -> None:
    """Forget that a training of this process had a directory."""
    _directory.trained.discard(path)
    _claims.forget_claims(path)


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
        raise ConfigError("auto_set_dir() takes the name of the script, and there is none: use set_logger_dir()")
    stem = os.path.splitext(os.path.basename(script))[0]
    separator = "_" if os.name == "nt" else ":"
    set_logger_dir(os.path.join("train_log", f"{stem}{separator}{name}" if name else stem), action)


def close_logger_dir() -> None:
    """Close the log file and forget the directory of the run; raise RemoteError if the rest cannot be sent there."""
    with _LOCK:
        handler, remote = _directory.handler, _directory.remote
        _directory.path = _directory.handler = _directory.remote = _directory.aside = None
        if handler is not None:
            _logger().removeHandler(handler)
            handler.close()
        if remote is not None:
            remote.close()


def __getattr__(name: str) -> str | None:
    """Give ``logger.logdir``, tensorpack's ``LOG_DIR``, which is what ``get_logger_dir()`` returns at that moment."""
    if name in ("logdir", "LOG_DIR"):
        return get_logger_dir()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Directory:
    """The directory of the run and the handler that writes its log file; one for the process, as the logger is."""

    path: str | None = None
    handler: logging.Handler | None = None
    # A `tpack.utils.remote.directories.RemoteDirectory`.
    remote: Any = None
    # Where its former content is, which was moved aside although nobody had asked for it.
    aside: str | None = None
    # The name that was given, where `leave_trained_dir` chose another one.
    named: str | None = None

    def __init__(self) -> None:
        # Those that a training of this process has or had.
        self.trained: set[str] = set()


_directory = _Directory()


@functools.cache
def _logger() -> logging.Logger:
    """Return the logger, which gets its handler the first time."""
    logger = logging.getLogger("tpack")
    with _LOCK:
        if not any(isinstance(handler, ConsoleHandler) for handler in logger.handlers):
            logger.addHandler(ConsoleHandler())
        logger.propagate = False
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
    return logger


def _write(level: int, msg: object, args: tuple[object, ...], options: dict[str, Any]) -> None:
    """Log on behalf of whoever called the public function, whose file and line the record names."""
    options["stacklevel"] = options.get("stacklevel", 1) + 2
    _logger().log(level, msg, *args, **options)


def prepare_log_dir(dirname: str, action: str | None = None) -> str:
    """Make ``dirname`` an existing directory to log into.

    Args:
        dirname: an absolute path. A directory that does not exist or is empty is used whatever the action.
        action: what to do with a directory that has content: ``"b"`` or None moves it aside under a name with the
            time in it, ``"d"`` deletes it, ``"k"`` keeps it and its content, ``"n"`` leaves it alone and makes a new
            one with the time in its name, ``"q"`` or ``"raise"`` refuses.

    Returns:
        The directory to log into; another one than ``dirname`` only for ``"n"``.

    Raises:
        ConfigError: The action is none of these; the path is a file; the directory has content and the action is to
            refuse; or it would be moved or deleted while the process works in it, or another one trains in it.
    """
    return _prepare(dirname, action)[0]


def _prepare(dirname: str, action: str | None) -> tuple[str, str | None]:
    """Do as `prepare_log_dir`; return also where former content was moved, if it was."""
    _check_action(action)
    aside = None
    if action is None and _is_failed_start(dirname):
        return dirname, None
    if os.path.exists(dirname) and not os.path.isdir(dirname):
        raise ConfigError(f"the log directory {dirname!r} is a file: expected a directory, or a path that is free")
    if os.path.isdir(dirname) and os.listdir(dirname):
        dirname, aside = _make_room(dirname, _ACTIONS[action])
    os.makedirs(dirname, exist_ok=True)
    return dirname, aside


def _check_action(action: str | None) -> None:
    """Refuse an action that is unknown."""
    if action not in _ACTIONS:
        known = ", ".join(map(repr, _ACTIONS))
        raise ConfigError(f"action={action!r} for an existing log directory is unknown: expected one of {known}")


def _make_room(dirname: str, action: str) -> tuple[str, str | None]:
    """Carry out the action on a directory that has content; return the directory to use, and where the content is."""
    if action == "q":
        raise ConfigError(f"the log directory {dirname!r} exists and is not empty, and action='q' forbids using it")
    if action == "n":
        return timestamped(dirname), None
    aside = None
    if action in ("b", "d") and _holds_working_directory(dirname):
        raise ConfigError(f"the process works inside {dirname!r}, so it is not moved or deleted: use action='k' or 'n'")
    if action in ("b", "d"):
        _claims.check_not_claimed(dirname)
    if action == "d":
        importlib.import_module("shutil").rmtree(dirname)
    elif action == "b":
        aside = timestamped(dirname)
        os.rename(dirname, aside)
        info("What was in %s is in %s now.", dirname, aside)
    return dirname, aside


def _is_failed_start(dirname: str) -> bool:
    """Tell whether a directory holds nothing but the log of a run that failed before its first step."""
    if not os.path.isdir(dirname) or not set(os.listdir(dirname)) <= _OF_FAILED_START:
        return False
    try:
        with open(os.path.join(dirname, "run.json"), encoding="utf-8") as file:
            status = json.load(file)
    except (OSError, ValueError):
        return False
    return status.get("state") == "failed" and status.get("progress", {}).get("epoch") == 0


def in_notebook() -> bool:
    """Tell whether this process is a notebook kernel, of Jupyter or similar."""
    ipython = sys.modules.get("IPython")
    # A module that is being imported does not have it yet.
    get_shell = getattr(ipython, "get_ipython", None)
    return get_shell is not None and getattr(get_shell(), "kernel", None) is not None


def _holds_working_directory(dirname: str) -> bool:
    """Tell whether the process's working directory is ``dirname`` or below it."""
    path = os.path.realpath(dirname)
    return os.path.commonpath([path, os.path.realpath(os.getcwd())]) == path


def timestamped(dirname: str) -> str:
    """Return a free path that begins with ``dirname`` and has the time in it."""
    stem = f"{dirname}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, count = stem, 1
    while os.path.exists(path):
        path, count = f"{stem}-{count}", count + 1
    return path


class LineFormatter(logging.Formatter):
    """Format a record as ``[month-day time @file:line] MARK message``.

    Args:
        coloured: whether the frame and the mark get terminal colours.
    """

    def __init__(self, *, coloured: bool = False) -> None:
        super().__init__(datefmt="%m-%d %H:%M:%S")
        self._coloured = coloured

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        """Put frame, mark and message together; ``format`` adds the traceback."""
        frame = f"[{record.asctime} @{record.filename}:{record.lineno}]"
        mark, colour = _mark(record.levelno)
        if self._coloured:
            frame, mark = f"{_GREEN}{frame}{_RESET}", f"{colour}{mark}{_RESET}" if mark else ""
        return " ".join(part for part in (frame, mark, record.message) if part)

    def usesTime(self) -> bool:  # noqa: N802 (logging's name)
        """Tell ``format`` that ``asctime`` is wanted."""
        return True


class ConsoleHandler(logging.Handler):
    """Write each record to what ``sys.stderr`` is at that moment, in colours if that is a terminal.

    In a notebook it is ``sys.stdout``. The stream is looked up for each record and not kept, so that redirection by a
    script or by pytest works.
    """

    def __init__(self) -> None:
        super().__init__()
        self._formatters = {flag: LineFormatter(coloured=flag) for flag in (False, True)}

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a stream that fails is reported the way the logging module does."""
        stream = sys.stdout if in_notebook() else sys.stderr
        if stream is None:
            return
        try:
            coloured = stream.isatty() and "NO_COLOR" not in os.environ
            stream.write(self._formatters[coloured].format(record) + "\n")
            stream.flush()
        except Exception:
            self.handleError(record)


class LogFileHandler(logging.FileHandler):
    """Write each record to the log file; say once, on standard error, that it cannot be written any more."""

    _has_said = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        """Say what went wrong with a record: a full disk in one line, and not in a traceback for each."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._has_said and sys.stderr is not None:
            self._has_said = True
            sys.stderr.write(f"The log file {self.baseFilename} cannot be written ({error}): it lacks lines.\n")


def _mark(level: int) -> tuple[str, str]:
    """Return the mark of a level and its colour; ordinary messages have none."""
    if level >= logging.ERROR:
        return "ERR", _RED
    if level >= logging.WARNING:
        return "WRN", _YELLOW
    return ("DBG", _GREEN) if level <= logging.DEBUG else ("", "")
