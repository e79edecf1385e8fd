"""Every module says what it is for, and docstrings have their sections, in one order.

Whether what they say is true no test can tell; that something is said where it is needed, one can.
"""

import ast
import re

import pytest

from tests.helpers.source import functions, modules_under

SECTIONS = ["Args", "Attributes", "Returns", "Yields", "Shapes", "Units", "Creates", "Raises", "Example", "Source"]
# Packages where a reader has to know shapes and origin of every public function.
EXPLAINED = ("tpack.reduction", "tpack.graph_builder")

MODULES = modules_under("tpack")


def sections_of(docstring):
    """Return the names of the sections of a docstring, in the order in which they stand."""
    return re.findall(rf"^ *({'|'.join(SECTIONS)}):$", docstring, re.M)


def public_definitions(tree):
    """Yield every public function and class of a module with its docstring, the methods of public classes included."""
    for node in tree.body:
        is_definition = isinstance(node, ast.FunctionDef | ast.ClassDef)
        if is_definition and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node)


def raised_in(function):
    """Return the names of what a function raises by itself, those of functions nested in it aside."""
    nested = {id(inner) for node in functions(function) if node is not function for inner in ast.walk(node)}
    raised = [node.exc for node in ast.walk(function) if isinstance(node, ast.Raise) and id(node) not in nested]
    called = [exc.func for exc in raised if isinstance(exc, ast.Call)]
    return {name.id for name in called if isinstance(name, ast.Name)} - {"NotImplementedError", "AttributeError"}


def where(module, node):
    return f"{module}:{node.lineno} {node.name}"


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_module_begins_with_what_it_is_for(module):
    docstring = ast.get_docstring(module.tree)
    assert docstring, f"{module} has no docstring"
    first_paragraph = docstring.split("\n\n")[0]
    assert first_paragraph[-1] in ".:", f"{module} begins with no sentence: {first_paragraph!r}"


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_sections_stand_in_one_order(module):
    for node in public_definitions(module.tree):
        found = sections_of(ast.get_docstring(node) or "")
        assert found == sorted(set(found), key=SECTIONS.index), where(module, node)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_errors_are_documented(module):
    """A public function that raises says so; for a constructor its class may say it."""
    for node in public_definitions(module.tree):
        raising = [node] if isinstance(node, ast.FunctionDef) else constructors(node)
        for function in filter(raised_in, raising):
            text = f"{ast.get_docstring(function)} {ast.get_docstring(node)}"
            assert re.search(r"^ *Raises:$|\b[Rr]efuse|\b[Rr]aise\b", text, re.M), where(module, node)


def constructors(class_node):
    names = ("__init__", "__post_init__", "__new__")
    return [node for node in class_node.body if isinstance(node, ast.FunctionDef) and node.name in names]


@pytest.mark.parametrize("module", [m for m in MODULES if m.name.startswith(EXPLAINED)], ids=str)
def test_exported_functions_are_explained(module):
    """What the package offers as a function has shapes, errors and source."""
    exported = exported_names(module.name)
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in exported:
            missing = {"Shapes", "Raises", "Source"} - set(sections_of(ast.get_docstring(node) or ""))
            assert missing == set(), where(module, node)


def exported_names(name):
    """Return the strings in ``__all__`` of the package that the module `name` is in."""
    package = name if name in EXPLAINED else name.rpartition(".")[0]
    init = next(module for module in MODULES if module.name == package)
    lists = [node.value for node in init.tree.body if isinstance(node, ast.Assign) and is_all(node)]
    return {constant.value for each in lists for constant in ast.walk(each) if isinstance(constant, ast.Constant)}


def is_all(node):
    return any(
        isinstance(name, ast.Name) and name.id == "__all__" for target in node.targets for name in ast.walk(target)
    )


def test_sections_of_finds_headings_only():
    assert sections_of("Do it.\n\n    Raises:\n        X: Shapes: differ.\n\n    Args: no\n    Source:\n") == [
        "Raises",
        "Source",
    ]


def test_raised_in_looks_at_the_function_itself():
    tree = ast.parse("def f():\n    def g():\n        raise A('')\n    raise B('') from None\n")
    assert raised_in(tree.body[0]) == {"B"}
