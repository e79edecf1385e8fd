"""The reader of the source tree that the other meta tests stand on."""

import ast

import pytest

from tests.helpers.source import Import, assert_none, functions, imports, modules_under


def names_imported(text):
    return [(found.source, found.member) for found in imports(ast.parse(text))]


def test_modules_under_names_packages_and_modules():
    by_name = {module.name: module for module in modules_under("tpack")}
    assert by_name["tpack"].is_package
    assert not by_name["tpack.errors"].is_package
    assert str(by_name["tpack.errors"]) == "tpack/errors.py"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a.b as c", [("a.b", None)]),
        ("from a.b import c, d", [("a.b", "c"), ("a.b", "d")]),
        ("def f():\n    from . import c", [(".", "c")]),
        ("importlib.import_module('a.b')", [("a.b", None)]),
        ("importlib.import_module(name)", []),
    ],
)
def test_imports_finds_every_way_to_import(text, expected):
    assert names_imported(text) == expected


def test_target_is_the_module_that_is_loaded():
    names = {"a", "a.b"}
    assert Import("a", "b", 1).target(names) == "a.b"
    assert Import("a", "Thing", 1).target(names) == "a"


def test_functions_finds_methods_and_nested_functions():
    tree = ast.parse("class A:\n    def f(self):\n        def g():\n            pass\n")
    assert [node.name for node in functions(tree)] == ["f", "g"]


def test_assert_none_names_every_breach():
    assert_none([])
    with pytest.raises(AssertionError, match="2 found:\na\nb"):
        assert_none(["b", "a"])
