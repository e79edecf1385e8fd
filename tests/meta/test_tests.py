"""Every module has a test file of its own name, and every test can fail."""

import ast

import pytest

from tests.helpers.source import ROOT, assert_none, called_name, functions, modules_under

# A module without a function, such as one of names or of error classes, has nothing to run.
MODULES = [module for module in modules_under("tpack") if not module.is_package and any(functions(module.tree))]
TEST_FILES = [module for module in modules_under("tests") if module.path.name.startswith("test_")]
JUDGING_CALLS = {"raises", "warns", "fail"}


def asserting_names(trees, known=frozenset(JUDGING_CALLS)):
    """Return `known` and the names of all functions in `trees` that assert something, if through one another."""
    found = set(known)
    while True:
        more = {node.name for tree in trees for node in functions(tree) if can_fail(node, found)} - found
        if not more:
            return found
        found |= more


def can_fail(function, asserting):
    """Whether a function holds an assertion or calls something that does."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call) and (called_name(node) in asserting or called_name(node).startswith("assert_")):
            return True
    return False


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
