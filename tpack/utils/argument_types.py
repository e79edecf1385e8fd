"""Checks arguments against their annotations, so that what a constructor says it takes is what it takes.

`check_arguments` decorates public classes and functions. A value of another type than its parameter's annotation is an
error that names both, before the constructor does anything. Annotations say what kind of thing an argument is; what
numbers are allowed is checked inside, by `tpack.utils.checks`.

Annotations are read at the first call and not when the module is imported. A name in them that exists for type checkers
only stands for anything, and so do protocols and type variables.
"""

import builtins
import functools
import inspect
import math
import os
import types
import typing
from collections import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Number, Real
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from tpack.errors import ConfigError, WrongTypeError
from tpack.utils.checks import owner_name, shown, with_article
from tpack.utils.renames import on_unknown_argument

Checked = TypeVar("Checked", bound=Callable[..., Any])
_MOST_ENTRIES = 1000
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

# An annotation for a number that may be NaN, such as a pixel of a map of depths.
FloatOrNan: TypeAlias = Annotated[float, math.nan]


class Kind(NamedTuple):
    """What an annotation allows.

    Attributes:
        accepts: tells whether a value is of this kind.
        wanted: how the kind is called in a message; empty for anything.
        entries: gives (index, entry, kind) for what is inside of a value of this kind.
    """

    accepts: Callable[[Any], bool]
    wanted: str
    entries: Callable[[Any], Iterator[tuple[object, Any, "Kind"]]] = lambda _: iter(())


def check_arguments(target: Checked) -> Checked:
    """Check the arguments of a function, or of a class's constructor, against their annotations.

    A subclass with a constructor of its own is checked where it calls the one of its base. Booleans are no numbers, NaN
    is no number, text is no sequence, and integers are taken where floats are wanted. A sequence of up to a thousand
    entries is looked through.

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
        found = {name: kind_of(_read(p.annotation, function)) for name, p in signature.parameters.items()}
        return {name: kind for name, kind in found.items() if kind.wanted and name not in ("self", "cls")}

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

    # What looks at arguments by itself, as `argscope` does, sees the names and not what is passed on here.
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _check_names(function: Callable[..., Any], signature: inspect.Signature, kwargs: Mapping[str, object]) -> None:
    """Refuse an argument that a function does not have, where it has one that can be meant."""
    known = [name for name in signature.parameters if name not in ("self", "cls")]
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        return
    for name in kwargs:
        meant = (
            [_OF_OTHER_LIBRARIES[name]] if _OF_OTHER_LIBRARIES.get(name) in known else get_close_matches(name, known, 1)
        )
        if name not in known and meant:
            raise TypeError(
                f"{function.__qualname__}() got an unexpected keyword argument {name!r}: did you mean {meant[0]}?"
            )


def _check(owner: object, name: str, value: object, kind: Kind, parameter: inspect.Parameter) -> None:
    """Refuse an argument that is of another kind; the default is always right."""
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
    """Check a value against a kind, and what is inside of it.

    Raises:
        WrongTypeError: It is of another kind.
        ConfigError: It is none of a few values.
    """
    if not kind.accepts(value):
        cause = ConfigError if kind.wanted.startswith("one of ") else WrongTypeError
        raise cause(f"{owner_name(owner)} got {name}={shown(value)}: wanted {kind.wanted}")
    for index, entry, inner in kind.entries(value):
        check_kind(owner, f"{name}[{index!r}]", entry, inner)


def kind_of(annotation: Any) -> Kind:
    """Return the kind that an annotation says."""
    origin = typing.get_origin(annotation)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin is Annotated:
        return kind_of(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return _either([kind_of(part) for part in typing.get_args(annotation)])
    if origin is typing.Literal:
        return _one_of(typing.get_args(annotation))
    if origin is tuple:
        return _tuple_of(typing.get_args(annotation))
    if origin in _COLLECTIONS or annotation in _COLLECTIONS:
        return _collection(origin or annotation, typing.get_args(annotation))
    if origin is abc.Callable or annotation is abc.Callable:
        return Kind(callable, "a function")
    return _instance(origin or annotation)


def _either(kinds: Sequence[Kind]) -> Kind:
    """Return the kind of what is of any of several kinds."""
    if not all(kind.wanted for kind in kinds):
        return _ANYTHING

    def entries(value: Any) -> Iterator[tuple[object, Any, Kind]]:
        fitting = [kind for kind in kinds if kind.accepts(value)]
        return next((kind for kind in fitting if _fits(value, kind)), fitting[0]).entries(value)

    # What may be None is said last, and after it how to make what is wanted.
    words = dict.fromkeys(kind.wanted for kind in sorted(kinds, key=lambda kind: kind.wanted == "None"))
    nouns, ways_out = zip(*(word.partition("; ")[::2] for word in words), strict=True)
    wanted = "; ".join([" or ".join(nouns).replace("text or a path", "a path"), *filter(None, ways_out)])
    return Kind(lambda value: any(kind.accepts(value) for kind in kinds), wanted, entries)


def _fits(value: object, kind: Kind) -> bool:
    """Tell whether a value and all that is inside of it are of a kind."""
    return kind.accepts(value) and all(_fits(entry, inner) for _, entry, inner in kind.entries(value))


def _one_of(choices: Sequence[object]) -> Kind:
    """Return the kind of a few values; a boolean is not the number that equals it."""
    pairs = {(type(choice), choice) for choice in choices}
    return Kind(
        lambda value: isinstance(value, abc.Hashable) and (type(value), value) in pairs,
        f"one of {', '.join(map(repr, choices))}",
    )


def _tuple_of(parts: Sequence[Any]) -> Kind:
    """Return the kind of tuples, which may come as lists too."""
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
    if not inner.wanted:
        return Kind(accepts, noun)

    def entries(value: Any) -> Iterator[tuple[object, Any, Kind]]:
        if isinstance(value, Mapping):
            pairs: Any = value.items()
        else:
            # What can be gone through once only is left for the constructor.
            pairs = enumerate(value) if isinstance(value, (list, tuple, set, frozenset)) else ()
        return ((key, entry, inner) for key, entry in pairs) if _is_short(value) else iter(())

    return Kind(accepts, f"{noun} of {_plural(inner.wanted)}", entries)


def _plural(wanted: str) -> str:
    """Return what is wanted of each of several."""
    article, _, noun = wanted.partition(" ")
    if article not in ("a", "an") or " or " in noun:
        return wanted
    noun, mark, way_out = noun.partition("; ")
    return f"{noun}s{mark}{way_out}" if " " not in noun else wanted


def _instance(cls: Any) -> Kind:
    """Return the kind of the objects of a class; that of anything if it is no class that objects can be asked for."""
    if isinstance(cls, TypeVar):
        return kind_of(cls.__bound__) if cls.__bound__ is not None else _ANYTHING
    is_for_type_checkers = getattr(cls, "_is_protocol", False) and not getattr(cls, "_is_runtime_protocol", False)
    if not isinstance(cls, type) or cls is _Anything or is_for_type_checkers:
        return _ANYTHING
    wanted = _IN_WORDS.get(cls.__name__, with_article(cls.__name__))
    if cls.__module__.partition(".")[0] == "tensorflow" and cls.__name__ in _TENSORS:
        return Kind(lambda value: hasattr(value, "dtype") and hasattr(value, "shape"), "a tensor")
    return Kind(lambda value: isinstance(value, cls), wanted)


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_)) and not math.isnan(value)


def _is_complex(value: object) -> bool:
    return isinstance(value, Number) and not isinstance(value, (bool, np.bool_))


def _is_sequence(value: object) -> bool:
    """Tell whether a value has a length and places, and is no text."""
    is_mapping = isinstance(value, (Mapping, str, bytes))
    return not is_mapping and hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _is_iterable(value: object) -> bool:
    """Tell whether a value can be gone through: what has places can, also without ``__iter__``."""
    return not isinstance(value, (str, bytes)) and (isinstance(value, abc.Iterable) or hasattr(value, "__getitem__"))


def _is_short(value: abc.Sized) -> bool:
    return not isinstance(value, abc.Sized) or len(value) <= _MOST_ENTRIES


class _AnythingMeta(type):
    """Lets a stand-in be written wherever a class may be in an annotation."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, item: object) -> Any:
        return cls


class _Anything(metaclass=_AnythingMeta):
    """Stands for a name that cannot be read."""


class _Names(dict[str, Any]):
    """The names of a module; one that only type checkers import stands for anything, if it is none of Python's."""

    def __missing__(self, name: str) -> Any:
        found = (vars(module)[name] for module in (builtins, abc, typing) if name in vars(module))
        return next(found, {"os": os, "np": np}.get(name, _Anything))


def _read(annotation: Any, function: Callable[..., Any]) -> Any:
    """Return an annotation as an object; one that is text, which is tpack's own source, is read in its module."""
    if isinstance(annotation, str):
        return eval(annotation, {}, _Names(function.__globals__))
    return annotation


_ANYTHING = Kind(lambda _: True, "")
_PLAIN: dict[Any, Kind] = {
    int: Kind(_is_integer, "an integer"),
    typing.SupportsIndex: Kind(_is_integer, "an integer"),
    float: Kind(_is_number, "a number"),
    FloatOrNan: Kind(_is_complex, "a number"),
    complex: Kind(_is_complex, "a number"),
    bool: Kind(lambda value: isinstance(value, (bool, np.bool_)), "True or False"),
    str: Kind(lambda value: isinstance(value, str), "text"),
    bytes: Kind(lambda value: isinstance(value, bytes), "bytes"),
    None: Kind(lambda value: value is None, "None"),
    type(None): Kind(lambda value: value is None, "None"),
    os.PathLike: Kind(lambda value: isinstance(value, os.PathLike), "a path"),
    os.PathLike[str]: Kind(lambda value: isinstance(value, os.PathLike), "a path"),
    np.ndarray: Kind(lambda value: isinstance(value, np.ndarray), "an array"),
    Any: _ANYTHING,
    object: _ANYTHING,
    inspect.Parameter.empty: _ANYTHING,
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
