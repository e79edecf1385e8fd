"""Every module says what it is for, and docstrings have their sections, in one order.

Whether what they say is true no test can tell; that something is said where it is needed, one can.
"""

import ast
import importlib
import re

import pytest

from tests.helpers.source import assert_none, functions, modules_under

SECTIONS = ["Args", "Attributes", "Returns", "Yields", "Shapes", "Units", "Creates", "Raises", "Example", "Source"]
# What a section says that has nothing to say.
FILLED_IN = re.compile(
    r"^ *(?:Args|Shapes|Units|Creates|Raises|Source):\s+"
    r"(?:nothing\b|none\b|no tensors?\b|not applicable|written for tpack)",
    re.M | re.I,
)

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


def docstring_of(node):
    return ast.get_docstring(node) or ""


def raised_in(function):
    """Return the names of what a function raises by itself, those of functions nested in it aside."""
    nested = {id(inner) for node in functions(function) if node is not function for inner in ast.walk(node)}
    raised = [node.exc for node in ast.walk(function) if isinstance(node, ast.Raise) and id(node) not in nested]
    called = [exc.func for exc in raised if isinstance(exc, ast.Call)]
    return {name.id for name in called if isinstance(name, ast.Name)} - {"NotImplementedError", "AttributeError"}


DEFINITIONS = [(module, node) for module in MODULES for node in public_definitions(module.tree)]


def where(module, node):
    return f"{module}:{node.lineno} {node.name}"


def test_every_module_begins_with_what_it_is_for():
    first_paragraphs = {str(module): docstring_of(module.tree).split("\n\n")[0] for module in MODULES}
    assert_none(module for module, text in first_paragraphs.items() if not text.endswith((".", ":")))


def test_summaries_are_nouns_or_imperatives():
    clause = re.compile(r"(What|Who|By|How|Which|Where)\b")
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    found = [(module, node) for module in MODULES for node in ast.walk(module.tree) if isinstance(node, kinds)]
    assert_none(
        f"{module}: {docstring_of(node).splitlines()[0]}" for module, node in found if clause.match(docstring_of(node))
    )


def test_sections_stand_in_one_order():
    found = [(where(module, node), sections_of(docstring_of(node))) for module, node in DEFINITIONS]
    assert_none(f"{place}: {names}" for place, names in found if names != sorted(set(names), key=SECTIONS.index))


def test_errors_are_documented():
    """A public function that raises says so; for a constructor its class may say it."""
    silent = []
    for module, node in DEFINITIONS:
        raising = [node] if isinstance(node, ast.FunctionDef) else constructors(node)
        for function in filter(raised_in, raising):
            text = docstring_of(function) + docstring_of(node)
            if not re.search(r"^ *Raises:$|\b[Rr]efuse|\b[Rr]aise\b", text, re.M):
                silent.append(where(module, node))
    assert_none(silent)


def constructors(class_node):
    names = ("__init__", "__post_init__", "__new__")
    return [node for node in class_node.body if isinstance(node, ast.FunctionDef) and node.name in names]


def test_functions_on_gradients_say_their_shapes_and_where_they_come_from():
    exported = importlib.import_module("tpack.reduction").__all__
    inside = [(module, node) for module, node in DEFINITIONS if module.name.startswith("tpack.reduction.")]
    offered = [(m, node) for m, node in inside if isinstance(node, ast.FunctionDef) and node.name in exported]
    on_gradients = [(m, node) for m, node in offered if any("grad" in argument.arg for argument in node.args.args)]
    missing = {where(m, node): {"Shapes", "Source"} - set(sections_of(docstring_of(node))) for m, node in on_gradients}
    assert len(on_gradients) > 4
    assert_none(f"{place} lacks {', '.join(sorted(names))}" for place, names in missing.items() if names)


def test_no_section_is_there_for_the_rule_only():
    """A section applies or is absent."""
    assert_none(where(module, node) for module, node in DEFINITIONS if FILLED_IN.search(docstring_of(node)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Do.\n\nRaises:\n    Nothing.", True),
        ("Do.\n\nShapes:\n    No tensors are involved.", True),
        ("Do.\n\nSource:\n    Written for tpack.", True),
        ("Do.\n\nShapes: none", True),
        ("Do.\n\nReturns:\n    None for nothing to do, else the operation.", False),
        ("Do.\n\nRaises:\n    ConfigError: Nothing was given.", False),
    ],
)
def test_filled_in_sections_are_known(text, expected):
    assert bool(FILLED_IN.search(text)) == expected


def test_sections_of_finds_headings_only():
    assert sections_of("Do it.\n\n    Raises:\n        X: Shapes: differ.\n\n    Args: no\n    Source:\n") == [
        "Raises",
        "Source",
    ]


def test_raised_in_looks_at_the_function_itself():
    tree = ast.parse("def f():\n    def g():\n        raise A('')\n    raise B('') from None\n")
    assert raised_in(tree.body[0]) == {"B"}
