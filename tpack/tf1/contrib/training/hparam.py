"""`HParams`: hyper-parameters with their types, which text, JSON and dicts can change and not turn into something else.

The type of a hyper-parameter is that of its first value: an integer stays an integer, a list a list of what its first
entry was. A value that does not fit is an error; an integer fits where a float is wanted.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tpack.errors import ConfigError
from tpack.utils.validation import shown

# ``name=value``, ``name[3]=value`` or ``name=[value,value]``, and the comma behind it.
_ASSIGNMENT = re.compile(
    r"(?P<name>[a-zA-Z][\w.]*)(?:\[\s*(?P<index>\d+)\s*\])?\s*=\s*(?:\[(?P<list>[^\]]*)\]|(?P<text>[^,\[]*))(?:$|,\s*)"
)
_BOOLEANS = {"true": True, "True": True, "false": False, "False": False}


def parse_values(values: str, type_map: Mapping[str, type], ignore_unknown: bool = False) -> dict[str, Any]:
    """Read values from text such as ``"rate=0.1,layers=[64,32],name[1]=x"``.

    Args:
        values: the text.
        type_map: {name: type of its value or of the entries of its list}.
        ignore_unknown: whether names without a type are left out, and not an error.

    Returns:
        {name: value}; a list for one in brackets, and {index: value} for names with an index.

    Raises:
        ConfigError: The text cannot be read, a name has no type or comes twice, or a value is not of the type.
    """
    found: dict[str, Any] = {}
    position = 0
    while position < len(values):
        match = _ASSIGNMENT.match(values, position)
        if match is None:
            raise ConfigError(
                f"malformed hyper-parameters {values[position:]!r}: expected name=value,name=[value,value]"
            )
        position = match.end()
        name = match["name"]
        if name in type_map:
            _assign(found, match, type_map[name], values)
        elif not ignore_unknown:
            raise ConfigError(f"unknown hyper-parameter {name!r} in {values!r}: its type is not known")
    return found


def _assign(found: dict[str, Any], match: "re.Match[str]", kind: type, values: str) -> None:
    name, index = match["name"], match["index"]
    parse = _parser_of(name, kind, values)
    if match["list"] is not None:
        if index is not None:
            raise ConfigError(f"hyper-parameter {name}[{index}] got a list in {values!r}: expected one value")
        value: Any = [parse(entry) for entry in re.split("[ ,]", match["list"]) if entry]
    else:
        value = parse(match["text"])
    target: Any = found if index is None else found.setdefault(name, {})
    key = name if index is None else int(index)
    if not isinstance(target, dict) or key in target:
        raise ConfigError(f"hyper-parameter {name!r} comes twice in {values!r}")
    target[key] = value


def _parser_of(name: str, kind: type, values: str) -> Callable[[str], Any]:

    def parse(text: str) -> Any:
        try:
            if kind is bool:
                return _BOOLEANS[text] if text in _BOOLEANS else bool(int(text))
            return kind(text)
        except (TypeError, ValueError) as error:
            message = f"hyper-parameter {name!r} got {text!r} in {values!r}: expected one of type {kind.__name__}"
            raise ConfigError(message) from error

    return parse


def _cast(name: str, kind: type, value: Any) -> Any:
    """Return a value in the type of its hyper-parameter; raise ConfigError if it does not fit."""
    refusal = ConfigError(f"hyper-parameter {name!r} got {shown(value)}: expected one of type {kind.__name__}")
    if kind is type(None) or isinstance(value, kind):
        # A boolean is an integer to Python.
        if isinstance(value, bool) and kind in (int, float):
            raise refusal
        return value
    is_boolean, is_text = isinstance(value, (bool, np.bool_)), isinstance(value, (str, bytes))
    if kind is bool or is_boolean:
        if kind is bool and is_boolean:
            return bool(value)
        raise refusal
    if (kind is str) != is_text or (kind is int and not isinstance(value, (int, np.integer))):
        raise refusal
    try:
        return value.decode() if kind is str else kind(value)
    except (TypeError, ValueError) as error:
        raise refusal from error


class HParams:
    """Hyper-parameters by name: ``HParams(learning_rate=0.1, layers=[64, 32])``.

    Each is an attribute. Values change by `set_hparam`, `parse`, `parse_json` and `override_from_dict`, which hold them
    to their types; assigning to the attribute does not.

    Args:
        hparam_def: a protocol buffer of TensorFlow 1, which cannot be read here.
        model_structure: anything that is to travel along.
        **kwargs: the hyper-parameters; a list must not be empty, so that its type is known.

    Raises:
        ConfigError: A name is one of this class's own, a list is empty, or ``hparam_def`` was given.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        if hparam_def is not None:
            raise _no_protocol_buffer("hparam_def")
        # {name: (type of the value or of the entries, whether it is a list)}
        self._hparam_types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add a hyper-parameter, which keeps the type of its value.

        Raises:
            ConfigError: The name is taken, or the value an empty list.
        """
        if getattr(self, name, None) is not None:
            raise ConfigError(f"hyper-parameter name {name!r} is reserved, or was added before")
        is_list = isinstance(value, (list, tuple))
        if is_list and not value:
            raise ConfigError(f"hyper-parameter {name!r} got an empty list: expected one whose type shows by an entry")
        self._hparam_types[name] = (type(value[0]) if is_list else type(value), is_list)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Change a hyper-parameter to another value of its type.

        Raises:
            KeyError: There is none of this name.
            ConfigError: The value is of another type, a list for one value or the other way round.
        """
        kind, is_list = self._type_of(name)
        setattr(self, name, self._fitting(name, kind, is_list, value))

    @staticmethod
    def _fitting(name: str, kind: type, is_list: bool, value: Any) -> Any:
        if is_list and not isinstance(value, list):
            raise ConfigError(f"hyper-parameter {name!r} got {shown(value)}: expected a list")
        if not is_list and isinstance(value, list):
            raise ConfigError(f"hyper-parameter {name!r} got {shown(value)}: expected one value and no list")
        return [_cast(name, kind, entry) for entry in value] if is_list else _cast(name, kind, value)

    def _type_of(self, name: str) -> tuple[type, bool]:
        if name not in self._hparam_types:
            raise KeyError(f"there is no hyper-parameter {name!r}: there are {sorted(self._hparam_types)}")
        return self._hparam_types[name]

    def del_hparam(self, name: str) -> None:
        """Take a hyper-parameter away, if it is there."""
        if name in self._hparam_types:
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values: str) -> "HParams":
        """Change hyper-parameters by text such as ``"rate=0.1,layers=[64,32]"``; return itself.

        Raises:
            ConfigError: The text cannot be read, or names or types are not those of the hyper-parameters.
        """
        types = {name: kind for name, (kind, _) in self._hparam_types.items()}
        return self.override_from_dict(parse_values(values, types))

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> "HParams":
        """Change all hyper-parameters of a dict, or none if one does not fit; return itself.

        Raises:
            KeyError: There is none of a name.
            ConfigError: A value does not fit.
        """
        fitting = {name: self._fitting(name, *self._type_of(name), value) for name, value in values_dict.items()}
        for name, value in fitting.items():
            setattr(self, name, value)
        return self

    def set_from_map(self, values_map: Mapping[str, Any]) -> "HParams":
        """Change hyper-parameters by a dict: the older name of `override_from_dict`."""
        return self.override_from_dict(values_map)

    def parse_json(self, values_json: str) -> "HParams":
        """Change hyper-parameters by JSON, an object of them; return itself.

        Raises:
            KeyError: There is none of a name.
            ConfigError: The JSON is not an object, or a value does not fit.
        """
        values = json.loads(values_json)
        if not isinstance(values, dict):
            raise ConfigError(f"parse_json got {shown(values)}: expected an object of hyper-parameters")
        return self.override_from_dict(values)

    def to_json(self, indent: Any = None, separators: tuple[str, str] | None = None, sort_keys: bool = False) -> str:
        """Return the hyper-parameters as JSON, with the options of ``json.dumps``."""
        values = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def values(self) -> dict[str, Any]:
        """Return the hyper-parameters as a dict."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """Return a hyper-parameter, or a default; raise ConfigError if that is of another type."""
        if key not in self._hparam_types:
            return default
        if default is not None:
            kind, is_list = self._hparam_types[key]
            if is_list != isinstance(default, list):
                wanted = f"a list of {kind.__name__}" if is_list else f"one of type {kind.__name__}"
                raise ConfigError(f"hyper-parameter {key!r} got the default {shown(default)}: expected {wanted}")
            self._fitting(key, kind, is_list, default)
        return getattr(self, key)

    def get_model_structure(self) -> Any:
        """Return what travels along."""
        return self._model_structure

    def set_model_structure(self, model_structure: Any) -> None:
        """Set what travels along."""
        self._model_structure = model_structure

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Refuse: TensorFlow has lost the protocol buffer; `to_json` writes the same."""
        raise _no_protocol_buffer("to_proto")

    @staticmethod
    def from_proto(hparam_def: Any, import_scope: str | None = None) -> "HParams":
        """Refuse: TensorFlow has lost the protocol buffer; `parse_json` reads the same."""
        raise _no_protocol_buffer("from_proto")

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in sorted(self.values().items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self.values().items())!r})"


def _no_protocol_buffer(what: str) -> ConfigError:
    return ConfigError(
        f"HParams: {what} needs the protocol buffer HParamDef, which TensorFlow has lost: use to_json and parse_json"
    )
