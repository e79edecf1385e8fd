"""Checks of arguments: one way to say whose argument came as what, and what was wanted.

A check returns the argument, a number or path in its plain type, so that it stands where the argument is stored. A
value is shown by `shown`, which prints no data: a list of a million numbers appears as a list of a million.
"""

import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Sized
from numbers import Integral, Real
from typing import Any, TypeVar
from urllib.parse import unquote

import numpy as np

from tpack.errors import ConfigError, WrongTypeError

Wanted = TypeVar("Wanted")
Function = TypeVar("Function", bound=Callable[..., Any])
Choice = TypeVar("Choice")
_LONGEST_TEXT = 100
# Paths of pathlib have lost the second slash; a scheme of one letter is a drive.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_FILE_URL = re.compile(r"[Ff][Ii][Ll][Ee]:(?://(?:localhost)?)?(/[^/].*)")


def shown(value: object) -> str:
    """Return how a value is shown in a message: short ones as they are, others by what they are.

    Numbers, None, short text, and lists of up to four of these are shown as Python writes them; a function or class by
    its name, an array by its shape and dtype, a collection by its length, everything else by its class.
    """
    if value is None or isinstance(value, (bool, int, float, complex, np.generic, str, bytes, os.PathLike)):
        text = repr(value)
        return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."
    if isinstance(value, type) or callable(value):
        name = getattr(value, "__qualname__", None)
        return f"the {'class' if isinstance(value, type) else 'function'} {name}" if name else _article(value)
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if isinstance(value, (tuple, list)) and len(value) <= 4 and all(_is_plain(entry) for entry in value):
        text = repr(value)
        return text if len(text) <= _LONGEST_TEXT else f"{_article(value)} of {len(value)}"
    if isinstance(value, (tuple, list, dict, set, frozenset)):
        return f"{_article(value)} of {len(value)}"
    return _article(value)


def check_count(owner: object, name: str, value: object, minimum: int = 1, maximum: int | None = None) -> int:
    """Return an argument that counts something, as an ``int``.

    Args:
        owner: whose argument it is: text as it is, an object by its class.
        name: the argument.
        value: what came. A boolean is no number, and 2.0 no integer.
        minimum: the least that is allowed.
        maximum: the most that is allowed; None is without limit.

    Raises:
        WrongTypeError: It is no integer.
        ConfigError: It is outside the limits.
    """
    limits = f"an integer of at least {minimum}" if maximum is None else f"an integer from {minimum} to {maximum}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        raise WrongTypeError(_message(owner, name, value, limits))
    number = int(value)
    if number < minimum or (maximum is not None and number > maximum):
        raise ConfigError(_message(owner, name, value, limits))
    return number


def check_number(
    owner: object, name: str, value: object, low: float = -np.inf, high: float = np.inf, *, is_low_allowed: bool = True
) -> float:
    """Return an argument that is a real number, as an ``int`` or ``float``.

    Args:
        owner: whose argument it is.
        name: the argument.
        value: what came. A boolean is no number; NaN and infinity are never allowed.
        low: the least that is allowed.
        high: the most that is allowed.
        is_low_allowed: whether ``low`` itself is; if not, the number must be greater.

    Raises:
        WrongTypeError: It is no number.
        ConfigError: It is not finite, or outside the limits.
    """
    limits = [f"{'of at least' if is_low_allowed else 'greater than'} {low:g}"] if low > -np.inf else []
    limits += [f"of at most {high:g}"] if high < np.inf else []
    wanted = f"a {'' if limits else 'finite '}number {' and '.join(limits)}".strip()
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise WrongTypeError(_message(owner, name, value, wanted))
    number = int(value) if isinstance(value, Integral) else float(value)
    if not math.isfinite(number) or not low <= number <= high or (number == low and not is_low_allowed):
        raise ConfigError(_message(owner, name, value, wanted))
    return number


def check_bool(owner: object, name: str, value: object) -> bool:
    """Return an argument that is True or False.

    Raises:
        WrongTypeError: It is something else; 0, 1, "no" and None are.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise WrongTypeError(_message(owner, name, value, "True or False"))
    return bool(value)


def check_path(owner: object, name: str, value: object) -> str:
    """Return an argument that is the path of a file or directory, as text.

    Raises:
        WrongTypeError: It is neither text nor a path of `pathlib`.
        ConfigError: It is empty.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise WrongTypeError(_message(owner, name, value, "a path"))
    path = os.fspath(value)
    if not isinstance(path, str) or not path:
        raise ConfigError(_message(owner, name, value, "a path that is not empty"))
    return path


def check_local_path(owner: object, name: str, value: object) -> str:
    """Return an argument that is a path on this machine; ``file:///a/b`` stands for ``/a/b``.

    A URL of another kind would be taken for a relative path, and make a directory of its name.

    Raises:
        WrongTypeError: It is neither text nor a path of `pathlib`.
        ConfigError: It is empty, or the URL of something that is not on this machine.
    """
    path = check_path(owner, name, value)
    file = _FILE_URL.fullmatch(path)
    if file is not None:
        return unquote(file[1])
    if _URL.match(path):
        wanted = "a path on this machine; mount remote storage, and give the path where it is"
        raise ConfigError(_message(owner, name, value, wanted))
    return path


def check_text(owner: object, name: str, value: object) -> str:
    """Return an argument that is text and not empty.

    Raises:
        WrongTypeError: It is no text.
        ConfigError: It is empty.
    """
    if not isinstance(value, str):
        raise WrongTypeError(_message(owner, name, value, "text"))
    if not value:
        raise ConfigError(_message(owner, name, value, "text that is not empty"))
    return value


def check_choice(owner: object, name: str, value: Choice, choices: Collection[Choice]) -> Choice:
    """Return an argument that is one of a few.

    Raises:
        ConfigError: It is none of them.
    """
    if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices):
        raise ConfigError(_message(owner, name, value, f"one of {', '.join(map(repr, choices))}"))
    return value


def check_function(owner: object, name: str, value: Function, wanted: str = "a function") -> Function:
    """Return an argument that can be called.

    Raises:
        WrongTypeError: It cannot.
    """
    if not callable(value):
        raise WrongTypeError(_message(owner, name, value, wanted))
    return value


def check_instance(owner: object, name: str, value: object, kind: type[Wanted], wanted: str | None = None) -> Wanted:
    """Return an argument that is an object of a class.

    Args:
        owner: whose argument it is.
        name: the argument.
        value: what came.
        kind: its class.
        wanted: what to ask for, with the way out if there is one, such as ``"a DataFlow; as_dataflow makes one"``; the
            default names the class.

    Raises:
        WrongTypeError: It is of another class, or a class itself.
    """
    if not isinstance(value, kind):
        raise WrongTypeError(_message(owner, name, value, wanted or with_article(kind.__name__)))
    return value


def check_instances(
    owner: object, name: str, values: object, kind: type[Wanted], *, least: int = 0, wanted: str | None = None
) -> list[Wanted]:
    """Return an argument that is several objects of a class, as a list.

    Args:
        owner: whose argument it is.
        name: the argument.
        values: what came: a list, tuple or another iterable, but no text and no mapping.
        kind: the class of each.
        least: how many there must be.
        wanted: what to ask for; the default names the class.

    Raises:
        WrongTypeError: It is no such iterable, or one in it is of another class; the message says which.
        ConfigError: There are too few.
    """
    wanted = wanted or f"a list of {kind.__name__}"
    if isinstance(values, (str, bytes, dict)) or not isinstance(values, Iterable):
        raise WrongTypeError(_message(owner, name, values, wanted))
    entries = list(values)
    for index, entry in enumerate(entries):
        if not isinstance(entry, kind):
            raise WrongTypeError(_message(owner, f"{name}[{index}]", entry, with_article(kind.__name__)))
    if len(entries) < least:
        size = len(values) if isinstance(values, Sized) else len(entries)
        raise ConfigError(f"{owner_name(owner)} got {name} with {size} entries: wanted at least {least}")
    return entries


def owner_name(owner: object) -> str:
    """Return how whose argument it is, is written: text as it is, a class or an object by the class's name."""
    if isinstance(owner, str):
        return owner
    return owner.__name__ if isinstance(owner, type) else type(owner).__name__


def with_article(noun: str) -> str:
    """Return a noun with "a" or "an" before it."""
    return f"{'an' if noun[:1] in 'AEIOUaeiou' else 'a'} {noun}"


def _article(value: object) -> str:
    """Return the class of a value with its article."""
    return with_article(type(value).__name__)


def _is_plain(value: object) -> bool:
    """Tell whether a value is short and shown as Python writes it."""
    return value is None or isinstance(value, (bool, int, float, str))


def _message(owner: object, name: str, value: object, wanted: str) -> str:
    """Return the message: whose argument, what came, what was wanted."""
    return f"{owner_name(owner)} got {name}={shown(value)}: wanted {wanted}"
