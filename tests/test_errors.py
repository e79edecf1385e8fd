"""The error tree: what catches what."""

import builtins
import inspect
import pickle
import re

import pytest

import tpack
from tpack import errors
from tpack.tower.context import current_tower_context
from tpack.utils.lazy import import_optional

CLASSES = [member for _, member in inspect.getmembers(errors, inspect.isclass) if member.__module__ == errors.__name__]
ERRORS = [member for member in CLASSES if member not in (errors.Interrupted, errors.StopTraining)]


def drawn_tree():
    """Return {name: (name of the parent, names of the built-in errors)} as the module's docstring draws it."""
    drawn, path = {}, []
    lines = [line for line in errors.__doc__.splitlines() if line.startswith("    ")]
    for line in filter(str.strip, lines):
        depth = (len(line) - len(line.lstrip()) - 6) // 2
        name = line.split()[0]
        path[depth + 1 :] = [name]
        also = re.findall(r"\w+Error", line.partition("(also")[2])
        drawn[name] = (path[depth] if depth >= 0 else None, {word for word in also if hasattr(builtins, word)})
    return drawn


def test_tree_is_as_drawn():
    found = {}
    for cls in ERRORS:
        parent = next((base.__name__ for base in cls.__bases__ if base in CLASSES), None)
        also = {base.__name__ for base in cls.__bases__ if base.__module__ == "builtins"} - {"Exception"}
        found[cls.__name__] = (parent, also)
    assert found == drawn_tree()
    assert len(found) > 10


@pytest.mark.parametrize("cls", ERRORS)
def test_every_error_is_a_tpack_error_with_a_docstring(cls):
    assert issubclass(cls, errors.TpackError)
    assert cls.__doc__
    with pytest.raises(errors.TpackError, match="what came and what was wanted"):
        raise cls("what came and what was wanted")


@pytest.mark.parametrize("cls", [cls for cls in ERRORS if cls is not errors.TpackError])
def test_every_error_is_also_what_the_originals_raised(cls):
    originals = (ValueError, TypeError, RuntimeError, AssertionError, ImportError, OSError, AttributeError)
    assert issubclass(cls, originals)
    copy = pickle.loads(pickle.dumps(cls("what came")))
    assert type(copy) is cls
    assert str(copy) == "what came"


@pytest.mark.parametrize(
    ("handler", "wrong"),
    [
        (ValueError, lambda: tpack.ScheduledHyperParamSetter("learning_rate", [])),
        (TypeError, lambda: tpack.BatchData(tpack.FakeData([[1]]), "16")),
        (AssertionError, lambda: tpack.BatchData(tpack.FakeData([[1]]), 0)),
        (RuntimeError, lambda: tpack.MirroredStrategy(["/cpu:0"]).broadcast(1)),
        (AssertionError, current_tower_context),
        (ImportError, lambda: import_optional("no_such_package", "trying")),
    ],
)
def test_handlers_written_for_the_originals_catch(handler, wrong):
    with pytest.raises(handler) as caught:
        wrong()
    assert isinstance(caught.value, errors.TpackError)


def test_stop_training_is_not_caught_with_errors():
    assert not issubclass(errors.StopTraining, errors.TpackError)
    with pytest.raises(errors.StopTraining, match="enough"):
        raise errors.StopTraining("enough")
