"""Scripts and examples use most of the names that published scripts use, and every script is run by a test."""

import ast

from tests.helpers.source import ROOT, assert_none
from tests.helpers.used_names import used_names

FOLDER = ROOT / "tests" / "integration"
SCRIPTS = sorted((FOLDER / "scripts").glob("*.py"))
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))

# What the packages offer comes first in the list. HorovodTrainer is missing there: it is not offered.
MIN_FROM_PACKAGES, MIN_FROM_MODULES = 139, 74


def listed_names():
    """Return {place: names} of the list, in its two parts: packages, and modules by their own name."""
    text = (FOLDER / "data" / "used_names.txt").read_text(encoding="utf-8")
    parts = []
    for block in text.split("\n\n")[1:]:
        part = {}
        for line in block.splitlines():
            place, _, words = line.partition(":")
            part.setdefault(place, set()).update(words.split())
        parts.append(part)
    return parts


def test_scripts_use_most_of_the_names():
    used = {name for script in SCRIPTS + EXAMPLES for name, _ in used_names(script)}
    packages, modules = (set().union(*part.values()) for part in listed_names())

    assert not packages & modules
    assert len(used & packages) >= MIN_FROM_PACKAGES, sorted(packages - used)
    assert len(used & modules) >= MIN_FROM_MODULES, sorted(modules - used)


def test_every_script_is_run_by_a_test():
    imported = {
        alias.name
        for path in FOLDER.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.integration.scripts")
        for alias in [*node.names, ast.alias(node.module.rpartition(".")[2])]
    }
    assert_none(script.stem for script in SCRIPTS if script.stem not in imported)
