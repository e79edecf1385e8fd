"""Every module has a test file of its own name, and every test can fail."""

import ast
import re
from functools import cache

import pytest

from tests.helpers.source import ROOT, assert_none, called_name, functions, modules_under

# A module without a function, such as one of names or of error classes, has nothing to run.
MODULES = [module for module in modules_under("tpack") if not module.is_package and any(functions(module.tree))]
TEST_FILES = [module for module in modules_under("tests") if module.path.name.startswith("test_")]
JUDGING_CALLS = {"raises", "warns", "fail"}


def asserting_names(trees, known=frozenset(JUDGING_CALLS)):
    """Return `known` and the names of all functions in `trees` that assert something, if through one another."""
    found, nodes = set(known), [node for tree in trees for node in functions(tree)]
    while True:
        more = {node.name for node in nodes if can_fail(node, found)} - found
        if not more:
            return found
        found |= more


def can_fail(function, asserting):
    """Whether a function holds an assertion or calls something that does."""
    asserts, called = judgements(function)
    return asserts or not called.isdisjoint(asserting)


@cache
def judgements(function):
    """Return whether a function holds an assertion, and the names of what it calls."""
    nodes = list(ast.walk(function))
    called = {called_name(node) for node in nodes if isinstance(node, ast.Call)}
    asserts = any(isinstance(node, ast.Assert) for node in nodes)
    return asserts or any(name.startswith("assert_") for name in called), called


def find_tests(tree):
    return [node for node in functions(tree) if node.name.startswith("test_")]


def files_of_tests(module):
    """Return the test files of a module: ``test_<module>.py``, and ``test_<module>_<part>.py`` for parts of it."""
    folder = ROOT / "tests" / module.path.relative_to(ROOT / "tpack").parent
    return [*folder.glob(f"test_{module.path.stem}.py"), *folder.glob(f"test_{module.path.stem}_*.py")]


def test_every_module_has_a_test_file_of_its_name():
    assert_none(str(module) for module in MODULES if not files_of_tests(module))


def test_test_files_are_named_after_what_they_test():
    folders = {module.path.parent for module in modules_under("tpack")}
    mirrored = {ROOT / "tests" / folder.relative_to(ROOT / "tpack") for folder in folders}
    of_modules = {path for module in modules_under("tpack") for path in files_of_tests(module)}
    # Besides a module, a test may be about the whole of a package, or of a family's contract.
    known = ("test_contract", "test_package", "test_fuzz")
    files = [module for module in TEST_FILES if module.path.parent in mirrored]
    assert len(files) > 100
    assert_none(str(file) for file in files if file.path not in of_modules and not file.path.stem.startswith(known))


def test_every_test_file_has_tests():
    assert_none(str(module) for module in TEST_FILES if not find_tests(module.tree))


def test_every_test_can_fail():
    shared = asserting_names([module.tree for module in modules_under("tests/helpers")])
    silent = []
    for module in TEST_FILES:
        asserting = asserting_names([module.tree], shared)
        silent += [f"{module} {node.name}" for node in find_tests(module.tree) if not can_fail(node, asserting)]
    assert_none(silent)


def test_every_helper_is_in_the_index():
    folder = ROOT / "tests" / "helpers"
    rows = re.findall(r"^\| (`.+?) \|", (folder / "README.md").read_text(encoding="utf-8"), re.M)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(path.stem for path in folder.glob("*.py"))


def test_no_test_sleeps():
    calls = [
        (str(module), node) for module in TEST_FILES for node in ast.walk(module.tree) if isinstance(node, ast.Call)
    ]
    assert_none(f"{module}:{node.lineno}" for module, node in calls if called_name(node) == "sleep")


def test_no_test_has_a_shorter_time_limit_than_the_suite():
    """A limit that ends a hang is the suite's; a shorter one only fails where other programs run."""
    calls = [(module, node) for module in TEST_FILES for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    marks = [(module, node) for module, node in calls if called_name(node) == "timeout"]
    assert_none(f"{module}:{node.lineno}" for module, node in marks if ast.unparse(node.func) == "pytest.mark.timeout")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("assert 1", True),
        ("np.testing.assert_allclose(1, 1)", True),
        ("with pytest.raises(ValueError): f()", True),
        ("helper()", True),
        ("indirect()", True),
        ("print(1)", False),
        ("run()", False),
    ],
)
def test_can_fail_knows_an_assertion(body, expected):
    text = "def helper():\n    assert 1\ndef indirect():\n    helper()\ndef run():\n    pass\n"
    tree = ast.parse(f"{text}def test_it():\n    {body}\n")
    assert can_fail(find_tests(tree)[0], asserting_names([tree])) == expected
