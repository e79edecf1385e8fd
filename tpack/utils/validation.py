"""Validation of arguments: the decorator `check_arguments`, checks of single values, and the text of their errors.

`check_arguments` decorates public classes and functions: a value of another type than its parameter's annotation is an
error before the body runs. Which numbers are allowed is checked inside, by functions such as `check_count`, which
return the argument in its plain type. All have one form of message, which `mismatch` writes:
``X got a=5: expected ...; use ...``.

Annotations are read at the first call, not at import. Names that exist for type checkers only, protocols and type
variables accept anything.
"""

import builtins
import functools
import importlib
import inspect
import math
import os
import re
import types
import typing
from collections import abc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from numbers import Integral, Number, Real
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeGuard, TypeVar
from urllib.parse import unquote

import numpy as np

from tpack.errors import ConfigError, WrongTypeError
from tpack.utils.renames import on_unknown_argument

Checked = TypeVar("Checked", bound=Callable[..., Any])
Choice = TypeVar("Choice")
Expected = TypeVar("Expected")
Function = TypeVar("Function", bound=Callable[..., Any])

FloatOrNan: TypeAlias = Annotated[float, math.nan]
"""An annotation for a number that may be NaN, such as a pixel of a map of depths."""

_MOST_ENTRIES = 1000
_LONGEST_TEXT = 100
# Paths of pathlib have lost the second slash; a scheme of one letter is a drive.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_REMOTE_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://.+")
_FILE_URL = re.compile(r"[Ff][Ii][Ll][Ee]:(?://(?:localhost)?)?(/[^/].*)")
_IN_WORDS = {
    "DatasetV1": "a tf.data.Dataset",
    "DatasetV2": "a tf.data.Dataset",
    "Dimension": "a dimension of a shape",
    "DataFlow": "a DataFlow; as_dataflow makes one of a list, arrays, a generator function or a dataset",
    "SessionInit": "a SessionInit; SmartInit makes one of a checkpoint, a file or a dict",
    "InputSource": "an InputSource; QueueInput(dataflow) and TFDatasetInput(dataset) are",
    "Reducer": "a Reducer; make_reducer makes one",
    "SingleCostTrainer": "a SingleCostTrainer, such as SimpleTrainer()",
}
_OF_OTHER_LIBRARIES = {
    "batch": "batch_size",
    "epochs": "max_epoch",
    "logdir": "log_dir",
    "max_epochs": "max_epoch",
    "num_epochs": "max_epoch",
}


def mismatch(owner: object, name: str, value: object, expected: str, use: str = "") -> str:
    """Return the message of an error: whose argument, its value as `shown`, what is expected, and what to use."""
    return f"{owner_name(owner)} got {name}={shown(value)}: expected {expected}{f'; use {use}' if use else ''}"


def owner_name(owner: object) -> str:
    """Return the name of an argument's owner: text as it is, a class or an object by the name of the class."""
    if isinstance(owner, str):
        return owner
    return owner.__name__ if isinstance(owner, type) else type(owner).__name__


def shown(value: object) -> str:
    """Return a value as messages show it: short ones as they are, others by their kind and size.

    Numbers, None, short text, and lists of up to four of these are shown as Python writes them; a function or class by
    its name, an array by its shape and dtype, a collection by its length, everything else by its class.
    """
    if value is None or isinstance(value, (bool, int, float, complex, np.generic, str, bytes, os.PathLike)):
        text = repr(value)
        return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."
    class_of_value = with_article(type(value).__name__)
    if isinstance(value, type) or callable(value):
        name = getattr(value, "__qualname__", None)
        return f"the {'class' if isinstance(value, type) else 'function'} {name}" if name else class_of_value
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if not isinstance(value, (tuple, list, dict, set, frozenset)):
        return class_of_value
    if isinstance(value, (tuple, list)) and len(value) <= 4:
        is_plain = all(entry is None or isinstance(entry, (bool, int, float, str)) for entry in value)
        if is_plain and len(text := repr(value)) <= _LONGEST_TEXT:
            return text
    return f"{class_of_value} of {len(value)}"


def with_article(noun: str) -> str:
    """Return a noun with "a" or "an" before it."""
    return f"{'an' if noun[:1] in 'AEIOUaeiou' else 'a'} {noun}"


def is_integer(value: object) -> TypeGuard[int]:
    """Tell whether a value is an integer, numpy's included; booleans are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Tell whether a value is a real number, numpy's, infinity and NaN included; booleans are not."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def check_count(owner: object, name: str, value: object, minimum: int = 1, maximum: int | None = None) -> int:
    """Return an argument that counts something, as an ``int``; booleans and 2.0 are not integers.

    Raises:
        WrongTypeError: It is not an integer.
        ConfigError: It is outside the limits.
    """
    limits = f"an integer of at least {minimum}" if maximum is None else f"an integer from {minimum} to {maximum}"
    if not is_integer(value):
        raise WrongTypeError(mismatch(owner, name, value, limits))
    number = int(value)
    if number < minimum or (maximum is not None and number > maximum):
        raise ConfigError(mismatch(owner, name, value, limits))
    return number


def check_number(
    owner: object, name: str, value: object, low: float = -np.inf, high: float = np.inf, *, is_low_allowed: bool = True
) -> float:
    """Return an argument that is a real number, as an ``int`` or ``float``; booleans, NaN and infinity are none.

    Raises:
        WrongTypeError: It is not a number.
        ConfigError: It is not finite, or outside the limits.
    """
    limits = [f"{'of at least' if is_low_allowed else 'greater than'} {low:g}"] if low > -np.inf else []
    limits += [f"of at most {high:g}"] if high < np.inf else []
    expected = f"a {'' if limits else 'finite '}number {' and '.join(limits)}".strip()
    if not is_number(value):
        raise WrongTypeError(mismatch(owner, name, value, expected))
    number = int(value) if isinstance(value, Integral) else float(value)
    if not math.isfinite(number) or not low <= number <= high or (number == low and not is_low_allowed):
        raise ConfigError(mismatch(owner, name, value, expected))
    return number


def check_bool(owner: object, name: str, value: object) -> bool:
    """Return an argument that is True or False; raise WrongTypeError for others, such as 0, 1, "no" or None."""
    if not isinstance(value, (bool, np.bool_)):
        raise WrongTypeError(mismatch(owner, name, value, "True or False"))
    return bool(value)


def check_path(owner: object, name: str, value: object) -> str:
    """Return an argument that is the path of a file or directory, as text.

    Raises:
        WrongTypeError: It is neither text nor a path of `pathlib`.
        ConfigError: It is empty.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise WrongTypeError(mismatch(owner, name, value, "a path"))
    path = os.fspath(value)
    if not isinstance(path, str) or not path:
        raise ConfigError(mismatch(owner, name, value, "a path that is not empty"))
    return path


def is_remote(path: object) -> bool:
    """Tell whether a path is the URL of remote storage, such as ``s3://bucket/run``."""
    match = _REMOTE_URL.fullmatch(path) if isinstance(path, str) else None
    return match is not None and match[1].lower() != "file"


def check_local_path(owner: object, name: str, value: object) -> str:
    """Return an argument that is a path on this machine; ``file:///a/b`` stands for ``/a/b``.

    A URL of another kind would be a relative path, and make a directory of its name.

    Raises:
        WrongTypeError: It is neither text nor a path of `pathlib`.
        ConfigError: It is empty, or a URL of remote storage.
    """
    path = check_path(owner, name, value)
    file = _FILE_URL.fullmatch(path)
    if file is not None:
        return unquote(file[1])
    if _URL.match(path):
        expected = "a path on this machine; mount remote storage, and give the path where it is"
        raise ConfigError(mismatch(owner, name, value, expected))
    return path


def check_text(owner: object, name: str, value: object) -> str:
    """Return an argument that is text and not empty.

    Raises:
        WrongTypeError: It is not text.
        ConfigError: It is empty.
    """
    if not isinstance(value, str):
        raise WrongTypeError(mismatch(owner, name, value, "text"))
    if not value:
        raise ConfigError(mismatch(owner, name, value, "text that is not empty"))
    return value


def check_choice(owner: object, name: str, value: Choice, choices: Collection[Choice]) -> Choice:
    """Return an argument that is one of a few values; raise ConfigError for others."""
    if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices):
        raise ConfigError(mismatch(owner, name, value, f"one of {', '.join(map(repr, choices))}"))
    return value


def check_function(owner: object, name: str, value: Function, expected: str = "a function") -> Function:
    """Return an argument that can be called; raise WrongTypeError for others."""
    if not callable(value):
        raise WrongTypeError(mismatch(owner, name, value, expected))
    return value


def check_instance(
    owner: object, name: str, value: object, kind: type[Expected], expected: str | None = None
) -> Expected:
    """Return an argument that is an object of a class, which the text ``expected`` may name with the way out.

    Raises:
        WrongTypeError: It is of another class, or a class itself.
    """
    if not isinstance(value, kind):
        raise WrongTypeError(mismatch(owner, name, value, expected or with_article(kind.__name__)))
    return value


def check_instances(
    owner: object, name: str, values: object, kind: type[Expected], *, least: int = 0, expected: str | None = None
) -> list[Expected]:
    """Return several objects of a class, at least some number, as a list; neither text nor a mapping is one.

    Raises:
        WrongTypeError: It is not such an iterable, or an entry, which the message names, is of another class.
        ConfigError: There are too few.
    """
    if isinstance(values, (str, bytes, dict)) or not isinstance(values, Iterable):
        raise WrongTypeError(mismatch(owner, name, values, expected or f"a list of {kind.__name__}"))
    entries = list(values)
    for index, entry in enumerate(entries):
        check_instance(owner, f"{name}[{index}]", entry, kind)
    if len(entries) < least:
        size = len(values) if isinstance(values, Sized) else len(entries)
        raise ConfigError(f"{owner_name(owner)} got {name} with {size} entries: expected at least {least}")
    return entries


class Kind(NamedTuple):
    """The values that an annotation allows.

    Attributes:
        accepts: tells whether a value is of this kind.
        expected: the noun for it in a message; empty if everything is allowed.
        entries: gives (index, entry, kind) for what is inside a value of this kind.
    """

    accepts: Callable[[Any], bool]
    expected: str
    entries: Callable[[Any], Iterator[tuple[object, Any, "Kind"]]] = lambda _: iter(())


def check_arguments(target: Checked) -> Checked:
    """Check the arguments of a function, or of a class's constructor, against their annotations.

    A subclass with a constructor of its own is checked where it calls that of its base. Neither booleans nor NaN are
    numbers, text is not a sequence, and integers are accepted as floats. Entries of a sequence are checked up to a
    thousand.

    Raises:
        WrongTypeError: At a call, an argument is not what its annotation says.
    """
    if isinstance(target, type):
        cls: Any = target
        # A tuple with named fields is made by __new__.
        name = "__new__" if "__new__" in vars(cls) else "__init__"
        checked = _checked(getattr(cls, name), is_method=True)
        setattr(cls, name, staticmethod(checked) if name == "__new__" else checked)
        return target
    return typing.cast(Checked, _checked(target, is_method=False))


def _checked(function: Callable[..., Any], *, is_method: bool) -> Callable[..., Any]:
    """Return a function that checks its arguments before it calls another."""
    signature = inspect.signature(function)

    @functools.cache
    def kinds() -> dict[str, Kind]:
        """Return the kinds of the parameters; those that take anything are left out."""
        names = _Names(function.__globals__)
        # All that may be a name, looked up here: Python 3.14 copies the dict that it gets into a plain one.
        used = re.findall(r"[^\W\d]\w*", str(list(function.__annotations__.values())))
        hints = typing.get_type_hints(function, localns={name: names[name] for name in used}, include_extras=True)
        found = {name: kind_of(hints[name]) for name in signature.parameters if name in hints}
        return {name: kind for name, kind in found.items() if kind.expected and name not in ("self", "cls")}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs.keys() <= signature.parameters.keys():
            kwargs = on_unknown_argument(signature, function.__qualname__, args, kwargs)
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError:
            arguments = None
        if arguments is None:
            _check_names(function, signature, kwargs)
            # Python's own message names the function and the argument that is missing or too much.
            return function(*args, **kwargs)
        owner = args[0] if is_method else function.__name__
        for name, kind in kinds().items():
            if name in arguments:
                _check(owner, name, arguments[name], kind, signature.parameters[name])
        return function(*args, **kwargs)

    # Code that reads signatures, as `argscope` does, sees the names and not what is passed on here.
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _check_names(function: Callable[..., Any], signature: inspect.Signature, kwargs: Mapping[str, object]) -> None:
    """Refuse an unknown argument where a known one is probably meant."""
    known = [name for name in signature.parameters if name not in ("self", "cls")]
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        return
    for name in kwargs:
        if name in known:
            continue
        other = _OF_OTHER_LIBRARIES.get(name)
        meant = [other] if other in known else importlib.import_module("difflib").get_close_matches(name, known, 1)
        if meant:
            raise TypeError(
                f"{function.__qualname__}() got an unexpected keyword argument {name!r}: did you mean {meant[0]}?"
            )


def _check(owner: object, name: str, value: object, kind: Kind, parameter: inspect.Parameter) -> None:
    """Check an argument; the default is always right."""
    if value is parameter.default:
        return
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        for index, entry in enumerate(typing.cast(tuple[object, ...], value)):
            check_kind(owner, f"{name}[{index}]", entry, kind)
    elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
        for key, entry in typing.cast(dict[str, object], value).items():
            check_kind(owner, key, entry, kind)
    else:
        check_kind(owner, name, value, kind)


def check_kind(owner: object, name: str, value: object, kind: Kind) -> None:
    """Check a value and its entries against a kind; raise WrongTypeError, or ConfigError for a wrong choice."""
    if not kind.accepts(value):
        error = ConfigError if kind.expected.startswith("one of ") else WrongTypeError
        raise error(mismatch(owner, name, value, kind.expected))
    for index, entry, inner in kind.entries(value):
        check_kind(owner, f"{name}[{index!r}]", entry, inner)


def kind_of(annotation: Any) -> Kind:
    """Return the kind that an annotation says."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin is Annotated:
        return kind_of(parts[0])
    if origin in (typing.Union, types.UnionType):
        return _either([kind_of(part) for part in parts])
    if origin is typing.Literal:
        # A boolean is not the number that equals it.
        pairs = {(type(choice), choice) for choice in parts}
        return Kind(
            lambda value: isinstance(value, abc.Hashable) and (type(value), value) in pairs,
            f"one of {', '.join(map(repr, parts))}",
        )
    if origin is tuple:
        return _tuple_of(parts)
    if origin in _COLLECTIONS or annotation in _COLLECTIONS:
        return _collection(origin or annotation, parts)
    if origin is abc.Callable or annotation is abc.Callable:
        return Kind(callable, "a function")
    return _instance(origin or annotation)


def _either(kinds: Sequence[Kind]) -> Kind:
    """Return the kind of what is of any of several kinds."""
    if not all(kind.expected for kind in kinds):
        return _ANYTHING

    def entries(value: Any) -> Iterator[tuple[object, Any, Kind]]:
        fitting = [kind for kind in kinds if kind.accepts(value)]
        return next((kind for kind in fitting if _fits(value, kind)), fitting[0]).entries(value)

    # None comes last, and after it the ways out.
    words = dict.fromkeys(kind.expected for kind in sorted(kinds, key=lambda kind: kind.expected == "None"))
    nouns, ways_out = zip(*(word.partition("; ")[::2] for word in words), strict=True)
    expected = "; ".join([" or ".join(nouns).replace("text or a path", "a path"), *filter(None, ways_out)])
    return Kind(lambda value: any(kind.accepts(value) for kind in kinds), expected, entries)


def _fits(value: object, kind: Kind) -> bool:
    """Tell whether a value and all its entries are of a kind."""
    return kind.accepts(value) and all(_fits(entry, inner) for _, entry, inner in kind.entries(value))


def _tuple_of(parts: Sequence[Any]) -> Kind:
    """Return the kind of tuples, which may be lists too."""
    if not parts or parts[-1] is Ellipsis:
        return _collection(abc.Sequence, parts[:1])
    inner = [kind_of(part) for part in parts]
    return Kind(
        lambda value: isinstance(value, (tuple, list)) and len(value) == len(inner),
        f"a tuple of {len(inner)}",
        lambda value: ((index, entry, kind) for index, (entry, kind) in enumerate(zip(value, inner, strict=True))),
    )


def _collection(cls: type, parts: Sequence[Any]) -> Kind:
    """Return the kind of sequences, mappings and other collections."""
    accepts, noun = _COLLECTIONS[cls]
    inner = kind_of(parts[-1]) if parts else _ANYTHING
    if not inner.expected:
        return Kind(accepts, noun)

    def entries(value: Any) -> Iterator[tuple[object, Any, Kind]]:
        if isinstance(value, abc.Sized) and len(value) > _MOST_ENTRIES:
            return iter(())
        if isinstance(value, Mapping):
            return ((key, entry, inner) for key, entry in value.items())
        # An iterator is left for the constructor.
        is_checked = isinstance(value, (list, tuple, set, frozenset))
        return ((index, entry, inner) for index, entry in enumerate(value if is_checked else ()))

    return Kind(accepts, f"{noun} of {_plural(inner.expected)}", entries)


def _plural(expected: str) -> str:
    """Return the noun for several."""
    noun, mark, way_out = expected.partition("; ")
    article, _, word = noun.partition(" ")
    return f"{word}s{mark}{way_out}" if article in ("a", "an") and word and " " not in word else expected


def _instance(cls: Any) -> Kind:
    """Return the kind of the objects of a class; that of anything if `isinstance` does not accept it."""
    if isinstance(cls, TypeVar):
        return kind_of(cls.__bound__) if cls.__bound__ is not None else _ANYTHING
    is_for_type_checkers = getattr(cls, "_is_protocol", False) and not getattr(cls, "_is_runtime_protocol", False)
    if not isinstance(cls, type) or cls is _Anything or is_for_type_checkers:
        return _ANYTHING
    if cls.__module__.partition(".")[0] == "tensorflow" and cls.__name__ in _TENSORS:
        return Kind(lambda value: hasattr(value, "dtype") and hasattr(value, "shape"), "a tensor")
    return Kind(lambda value: isinstance(value, cls), _IN_WORDS.get(cls.__name__, with_article(cls.__name__)))


def _is_sequence(value: object) -> bool:
    """Tell whether a value has a length and places, and is not text."""
    is_mapping = isinstance(value, (Mapping, str, bytes))
    return not is_mapping and hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _is_iterable(value: object) -> bool:
    """Tell whether a value can be iterated over, also by places without ``__iter__``."""
    return not isinstance(value, (str, bytes)) and (isinstance(value, abc.Iterable) or hasattr(value, "__getitem__"))


class _AnythingMeta(type):
    """Lets a stand-in be written wherever a class may be in an annotation."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, item: object) -> Any:
        return cls


class _Anything(metaclass=_AnythingMeta):
    """A stand-in for a name that cannot be read."""


class _Names(dict[str, Any]):
    """The names of a module; a name that only type checkers import, and that is not Python's, stands for anything."""

    def __missing__(self, name: str) -> Any:
        found = (vars(module)[name] for module in (builtins, abc, typing) if name in vars(module))
        return next(found, {"os": os, "np": np}.get(name, _Anything))


def _class(cls: Any, expected: str) -> Kind:
    return Kind(lambda value: isinstance(value, cls), expected)


_ANYTHING = Kind(lambda _: True, "")
_PLAIN: dict[Any, Kind] = {
    **dict.fromkeys((int, typing.SupportsIndex), Kind(is_integer, "an integer")),
    float: Kind(lambda value: is_number(value) and not math.isnan(value), "a number"),
    **dict.fromkeys(
        (FloatOrNan, complex),
        Kind(lambda value: isinstance(value, Number) and not isinstance(value, (bool, np.bool_)), "a number"),
    ),
    bool: _class((bool, np.bool_), "True or False"),
    str: _class(str, "text"),
    bytes: _class(bytes, "bytes"),
    **dict.fromkeys((None, type(None)), _class(type(None), "None")),
    **dict.fromkeys((os.PathLike, os.PathLike[str]), _class(os.PathLike, "a path")),
    np.ndarray: _class(np.ndarray, "an array"),
    **dict.fromkeys((Any, object, inspect.Parameter.empty), _ANYTHING),
}
_COLLECTIONS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    abc.Sequence: (_is_sequence, "a list"),
    abc.MutableSequence: (_is_sequence, "a list"),
    abc.Collection: (_is_iterable, "a list"),
    abc.Iterable: (_is_iterable, "an iterable"),
    abc.Iterator: (lambda value: isinstance(value, abc.Iterator), "an iterator"),
    abc.Mapping: (lambda value: isinstance(value, Mapping), "a dict"),
    abc.MutableMapping: (lambda value: isinstance(value, Mapping), "a dict"),
    list: (lambda value: isinstance(value, list), "a list"),
    dict: (lambda value: isinstance(value, dict), "a dict"),
    set: (lambda value: isinstance(value, (set, frozenset)), "a set"),
}
_TENSORS = frozenset({"Tensor", "Variable", "VariableV1", "IndexedSlices", "SparseTensor", "RefVariable"})
