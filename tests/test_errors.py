"""The error tree: what catches what."""

import inspect

import pytest

from tpack import errors

CLASSES = [member for _, member in inspect.getmembers(errors, inspect.isclass) if member.__module__ == errors.__name__]
ERRORS = [member for member in CLASSES if member is not errors.StopTraining]


def drawn_tree():
    """Return {name: name of the parent} as the module's docstring draws it by indentation."""
    parents, path = {}, []
    lines = [line for line in errors.__doc__.splitlines() if line.startswith("    ")]
    for line in filter(str.strip, lines):
        depth = (len(line) - len(line.lstrip()) - 6) // 2
        name = line.split()[0]
        path[depth + 1 :] = [name]
        parents[name] = path[depth] if depth >= 0 else None
    return parents


def test_tree_is_as_drawn():
    found = {cls.__name__: next((b.__name__ for b in cls.__bases__ if b in CLASSES), None) for cls in ERRORS}
    assert found == drawn_tree()
    assert len(found) > 10


@pytest.mark.parametrize("cls", ERRORS)
def test_every_error_is_a_tpack_error_with_a_docstring(cls):
    assert issubclass(cls, errors.TpackError)
    assert cls.__doc__
    with pytest.raises(errors.TpackError, match="what came and what was wanted"):
        raise cls("what came and what was wanted")


def test_some_are_also_built_in_errors():
    also = {cls.__name__ for cls in ERRORS if issubclass(cls, ValueError | ImportError)}
    assert also == {"ConfigError", "WrongTypeError", "DependencyError"}


def test_stop_training_is_not_caught_with_errors():
    assert not issubclass(errors.StopTraining, errors.TpackError)
    with pytest.raises(errors.StopTraining, match="enough"):
        raise errors.StopTraining("enough")
