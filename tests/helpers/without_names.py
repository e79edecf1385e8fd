"""A TensorFlow that lacks private names: they are hidden from code of tpack, and there for TensorFlow's own.

``python tests/helpers/without_names.py '["Graph._names_in_use"]'``, in a process that has not loaded tpack, trains
three towers, or calls entries of `tests.helpers.nameless_training`, and prints what came of it as JSON. Modules are
hidden from all imports that come later.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import tensorflow.compat.v1 as tf

_MISSING = object()


class HiddenAttribute:
    """An attribute of a class or of its objects, of which code of tpack sees nothing."""

    def __init__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name
        self._was = vars(owner).get(name, _MISSING)
        setattr(owner, name, self)

    @contextmanager
    def _seen(self) -> Iterator[None]:
        """Take this out of its class for a block."""
        if self._was is _MISSING:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._was)
        try:
            yield
        finally:
            setattr(self._owner, self._name, self)

    def __get__(self, instance: Any, owner: type) -> Any:
        frame = sys._getframe(1)
        while frame.f_code.co_name == "__getattr__" and frame.f_back is not None:
            # It asks again for an attribute that was missing.
            frame = frame.f_back
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] == "tpack":
            raise AttributeError(f"{self._owner.__name__} has no {self._name}")
        with self._seen():
            return getattr(owner if instance is None else instance, self._name)

    def __set__(self, instance: Any, value: Any) -> None:
        with self._seen():
            setattr(instance, self._name, value)

    def __delete__(self, instance: Any) -> None:
        with self._seen():
            delattr(instance, self._name)


def hide(names: list[str]) -> None:
    """Take names of TensorFlow away from tpack, which is not loaded yet."""
    assert "tpack.compat" not in sys.modules
    with tf.Graph().as_default():
        variable = tf.get_variable("w", [], use_resource=True)
        store = sys.modules["tensorflow.python.ops.variable_scope"]
        owners: dict[str, type] = {
            "Graph": tf.Graph,
            "Operation": tf.Operation,
            "Tensor": type(variable.read_value()),
            "Variable": type(variable),
            "Session": tf.Session,
            "Optimizer": tf.train.Optimizer,
            "Adam": tf.train.AdamOptimizer,
            "VariableStore": type(store._get_default_variable_store()),
        }
    for name in names:
        if name.startswith("tensorflow."):
            sys.modules[name] = None  # type: ignore[assignment]
        else:
            owner, _, attribute = name.partition(".")
            HiddenAttribute(owners[owner], attribute)


def main() -> None:
    """Hide the names of the first argument; train, or call the entries of the second one."""
    names, entries = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    hide(names)
    training = import_module("tests.helpers.nameless_training")
    with import_module("tests.helpers.log_lines").captured_log() as lines:
        found = {"errors": training.errors_of(entries)} if entries else {"weights": training.train()}
    found["log"] = [line for line in lines if "TensorFlow is without" in line]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
