"""One room for one concept: how large files, functions and folders are, and that none of them only passes on.

A limit never makes a class. Where a rule and a good file disagree, the file stands in the list beside the rule, with
the reason. A function is measured without its docstring: explaining more should never be a reason to split one.
"""

import ast
import importlib
import inspect
import subprocess
import sys
import warnings
from collections import Counter, defaultdict
from functools import cache
from typing import NamedTuple

import pytest

from tests.helpers.source import ROOT, assert_none, functions, imports, modules_under
from tests.meta.test_layers import ring_of


class Limit(NamedTuple):
    """A limit on a figure of the tree.

    Attributes:
        goal: the limit.
        pending: the limit until the goal is reached; None from then on.
    """

    goal: int
    pending: int | None = None


LIMITS = {
    "modules in a chain of imports, over all": Limit(18),
    "modules in a chain of imports, in the core": Limit(15),
    "modules with one importer": Limit(57),
    "modules loaded by import tpack.train.trainers": Limit(120),
    "modules loaded by import tpack.graph_builder.replicated": Limit(60),
    "modules loaded by import tpack.dataflow.parallel.process_runner": Limit(25),
}

FILE_LINES = (450, 700)
FUNCTION_LINES = (40, 70)
FOLDER_MODULES = 24
CHAIN_MODULES = 8
ROOM_LINES = 40

# Few lines and one importer beside it, and yet a room of its own: scripts import it by this name, or it is run.
STANDS_ALONE: dict[str, str] = {}

# It only hands on what is elsewhere: scripts import these names from here, and a level below needs the code.
HANDS_ON = {"tpack.tfutils.collection": "the code is in tpack.tower, which saves and restores collections itself"}

# The only subclass is in another file of the package: users derive from the base.
FOR_USERS: dict[str, str] = {
    "tpack.distribute.contexts.ReplicaContext": "public as TowerContext; it is itself the default strategy's context",
    "tpack.multi_worker.replicated_builder.MultiWorkerReplicatedBuilder": "what trainers make by default",
}

# Code that scripts import from one module and that lies in a lower level, where it is needed first.
BELOW = {
    "tpack.utils.argtools.log_once": "tpack.utils.logger",
    "tpack.tfutils.collection.backup_collection": "tpack.tower.collections",
    "tpack.tfutils.collection.freeze_collection": "tpack.tower.collections",
    "tpack.tfutils.collection.restore_collection": "tpack.tower.collections",
    "tpack.tfutils.tower.PredictTowerContext": "tpack.tower.context",
    "tpack.tfutils.tower.TowerFunc": "tpack.tower.tower_func",
    "tpack.tfutils.tower.TrainTowerContext": "tpack.tower.context",
    "tpack.tfutils.varreplace.custom_getter_scope": "tpack.tower.getters",
}

# The modules that the ``__init__`` of a package may import: what makes its names lazy, and tables of names.
FOR_INIT = {"tpack.legacy.table", "tpack.public_names", "tpack.utils.lazy", "tpack.version"}
EAGER_UNTIL_ATTACHED = "tpack.tf1"
"""The package whose tables do not go through ``attach`` yet."""

# File names that do not tell a reader who knows the field what is inside.
BANNED_NAMES = """
    added_callbacks agreement attempt attempts between_workers broken_step by_kind by_measurement calls change_check
    component cores deal door end_signal ending_together gate given hub joining line listening looks making
    measuring_process meeting mixing over_towers pairs places seen_by_tensorflow several_steps shadow shared shorter
    sorted_table stages survivors taking telling trainer_towers
"""
MODULES = modules_under("tpack")
ROOMS = [module for module in MODULES if not module.is_package]
NAMES = {module.name for module in MODULES}


def folder_of(name):
    return name.rpartition(".")[0]


@cache
def imported_by():
    """Return {module: modules of tpack that it imports}."""
    found = {}
    for module in MODULES:
        targets = {imported.target(NAMES) for imported in imports(module.tree)}
        found[module.name] = {target for target in targets if target in NAMES} - {module.name}
    return found


def named_by_text(module):
    """Return the modules that texts such as ``"algorithms.ring:RingReducer"`` name, relative to the package."""
    package = ".".join(module.name.split(".")[:2])
    texts = (node.value for node in ast.walk(module.tree) if isinstance(node, ast.Constant))
    places = (text.partition(":") for text in texts if isinstance(text, str))
    return {f"{package}.{place}" for place, _, name in places if name.isidentifier()} & NAMES


def docstring_lines(tree):
    """Return the numbers of the lines that belong to docstrings."""
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            lines.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines


def code_lines(text):
    """Return the number of lines of a module that are neither empty, nor a comment, nor of a docstring."""
    docstrings = docstring_lines(ast.parse(text))
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for number, line in lines if line.strip() and line.strip()[0] != "#" and number not in docstrings)


def function_lines(function):
    """Return the number of lines of a function from its ``def`` on, less its docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is None:
        return lines
    docstring = function.body[0]
    return lines - (docstring.end_lineno - docstring.lineno + 1)


def too_long(sizes, limits):
    """Warn of what is above the first limit; return what is above the second.

    Args:
        sizes: pairs of what it is and how many lines it has.
        limits: the number of lines to warn above, and that to fail above.
    """
    warn_above, fail_above = limits
    for what, lines in sizes:
        if warn_above < lines <= fail_above:
            warnings.warn(f"{what} has {lines} lines, more than {warn_above}: two concepts in one?", stacklevel=2)
    return [f"{what} has {lines} lines, more than {fail_above}" for what, lines in sizes if lines > fail_above]


def parts_of_neighbours(rooms, imported):
    """Return the small modules that only one module of their folder imports, and nobody else.

    Args:
        rooms: {module: lines of code}.
        imported: {module: modules that it imports}.
    """
    importers = defaultdict(set)
    for name, targets in imported.items():
        for target in targets:
            importers[target].add(name)
    # A package's ``__init__`` shows names; who uses them are the others.
    users = {name: {user for user in importers[name] if user != folder_of(name)} for name in rooms}
    return {
        name: next(iter(users[name]))
        for name, lines in rooms.items()
        if lines < ROOM_LINES and len(users[name]) == 1 and folder_of(next(iter(users[name]))) == folder_of(name)
    }


def longest_chain(names, imported):
    """Return the longest way from module to module by imports, inside `names`."""

    @cache
    def chain(name):
        ways = [chain(target) for target in imported[name] if target in names]
        return (name, *max(ways, key=len, default=()))

    return max(map(chain, names), key=len, default=())


def only_hands_on(tree):
    """Tell whether a module consists of imports, names and texts and defines nothing."""
    body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return all(
        (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
        for node in body
    )


def bases_of_one(trees):
    """Return {base class: the only class that derives from it} where the two are in different modules of one package.

    Args:
        trees: {module: its syntax tree}.
    """
    homes, subclasses = {}, defaultdict(set)
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name] = module
                for base in node.bases:
                    name = ast.unparse(base).partition("[")[0].rpartition(".")[2]
                    subclasses[name].add((module, node.name))
    found = {}
    for base, derived in subclasses.items():
        module, name = next(iter(derived))
        home = homes.get(base)
        if len(derived) == 1 and home and module != home and module.split(".")[:2] == home.split(".")[:2]:
            found[f"{home}.{base}"] = f"{module}.{name}"
    return found


def test_no_file_is_too_long():
    assert_none(too_long([(str(module), len(module.text.splitlines())) for module in MODULES], FILE_LINES))


def test_no_function_is_too_long():
    found = [(module, function) for module in MODULES for function in functions(module.tree)]
    sizes = [(f"{module}:{function.lineno} {function.name}", function_lines(function)) for module, function in found]
    assert_none(too_long(sizes, FUNCTION_LINES))


def test_no_module_is_a_part_of_its_neighbour():
    found = parts_of_neighbours({room.name: code_lines(room.text) for room in ROOMS}, imported_by())
    assert_none(f"{name}: a part of {user}?" for name, user in found.items() if name not in STANDS_ALONE)
    assert STANDS_ALONE.keys() <= found.keys()


def test_no_folder_is_too_full():
    folders = Counter(folder_of(room.name) for room in ROOMS)
    assert_none(f"{folder} has {count} modules" for folder, count in folders.items() if count > FOLDER_MODULES)


@pytest.mark.parametrize("package", sorted({m.name for m in MODULES if m.is_package and m.name.count(".") == 1}))
def test_chains_of_imports_are_short(package):
    rooms = {room.name for room in ROOMS if room.name.startswith(f"{package}.")}
    chain = longest_chain(frozenset(rooms), imported_by())
    assert len(chain) <= CHAIN_MODULES, " -> ".join(chain)


def check_limit(what, figure, detail=""):
    """Hold a figure against its limit, and a pending limit against its goal."""
    goal, pending = LIMITS[what]
    assert figure <= (goal if pending is None else pending), f"{figure} {what}: {detail}"
    assert pending is None or figure > goal, f"{figure} {what}: the goal is reached, take `pending` away"


def test_chains_of_imports_over_all_are_short():
    chain = longest_chain(frozenset(NAMES), imported_by())
    check_limit("modules in a chain of imports, over all", len(chain), " -> ".join(chain))


def test_chains_of_imports_in_the_core_are_short():
    chain = longest_chain(frozenset(name for name in NAMES if ring_of(name) == 0), imported_by())
    check_limit("modules in a chain of imports, in the core", len(chain), " -> ".join(chain))


def test_few_modules_have_one_importer():
    importers = Counter(
        target for name, targets in imported_by().items() for target in targets if name != folder_of(target)
    )
    importers.update(target for module in MODULES for target in named_by_text(module) - imported_by()[module.name])
    single = sorted(room.name for room in ROOMS if importers[room.name] == 1)
    check_limit("modules with one importer", len(single), " ".join(single))


@pytest.mark.parametrize(
    "module", ["tpack.train.trainers", "tpack.graph_builder.replicated", "tpack.dataflow.parallel.process_runner"]
)
def test_an_import_loads_few_modules(module):
    code = f"import sys, {module}; print(*(name for name in sys.modules if name.partition('.')[0] == 'tpack'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    check_limit(f"modules loaded by import {module}", len(loaded), " ".join(loaded))
    assert not [name for name in loaded if name.startswith("tpack.legacy")]


def test_packages_import_none_of_their_modules():
    eager = {
        (package.name, imported.target(NAMES))
        for package in MODULES
        for imported in imports(package.tree)
        if package.is_package and imported.source.partition(".")[0] == "tpack"
    }
    found = [(package, target) for package, target in eager if target not in FOR_INIT]
    pending = [package for package, _ in found if f"{package}.".startswith(f"{EAGER_UNTIL_ATTACHED}.")]
    assert_none(f"{package} imports {target}" for package, target in found if package not in pending)
    assert pending, "all packages are lazy: take EAGER_UNTIL_ATTACHED away"


def test_modules_have_names_of_the_field():
    banned = set(BANNED_NAMES.split())
    assert len(banned) >= 40
    assert_none(room.name for room in ROOMS if room.name.rpartition(".")[2] in banned)


def test_a_pending_limit_ends_with_its_goal(monkeypatch):
    monkeypatch.setitem(LIMITS, "it", Limit(3, pending=5))
    for figure, message in ((6, "6 it"), (3, "goal is reached")):
        with pytest.raises(AssertionError, match=message):
            check_limit("it", figure)
    check_limit("it", 4)
    monkeypatch.setitem(LIMITS, "it", Limit(3))
    check_limit("it", 3)
    with pytest.raises(AssertionError, match="4 it"):
        check_limit("it", 4)


@pytest.mark.parametrize("folder", ["benchmarks", "examples", "tests/integration/scripts"])
def test_no_script_hides_a_module_of_the_standard_library(folder):
    """The folder of a script that is run is searched first, also by the modules of the standard library."""
    of_python_3_14 = {"annotationlib", "compression"}
    scripts = list((ROOT / folder).rglob("*.py"))
    assert scripts
    assert_none(str(path) for path in scripts if path.stem in sys.stdlib_module_names | of_python_3_14)


def test_no_module_only_hands_on():
    found = {room.name for room in ROOMS if only_hands_on(room.tree)}
    assert found == HANDS_ON.keys()


def test_no_base_class_has_its_only_member_elsewhere():
    found = bases_of_one({module.name: module.tree for module in MODULES})
    public = {name for package in MODULES if package.is_package for name in names_of(package.name)}
    hidden = {base: derived for base, derived in found.items() if base.rpartition(".")[2] not in public}
    assert_none(f"{base}: only {derived}" for base, derived in hidden.items() if base not in FOR_USERS)
    assert FOR_USERS.keys() <= hidden.keys()


def names_of(package):
    return importlib.import_module(package).__all__


def test_code_is_where_scripts_import_it():
    text = (ROOT / "tests" / "integration" / "data" / "used_names.txt").read_text(encoding="utf-8")
    elsewhere = {}
    for line in text.split("\n\n")[2].splitlines():
        place, _, names = line.partition(":")
        module = importlib.import_module(f"tpack.{place}")
        for name in names.split():
            value = getattr(module, name)
            home = getattr(value, "__module__", module.__name__)
            is_code = inspect.isclass(value) or inspect.isfunction(value)
            if is_code and home != module.__name__:
                elsewhere[f"{module.__name__}.{name}"] = home
    assert elsewhere == BELOW


def test_too_long_is_silent_then_warns_then_fails():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert too_long([("it", 40)], FUNCTION_LINES) == []
        assert too_long([("it", 71)], FUNCTION_LINES) == ["it has 71 lines, more than 70"]
    with pytest.warns(UserWarning, match="it has 41 lines, more than 40"):
        assert too_long([("it", 41)], FUNCTION_LINES) == []


def test_lines_of_code_leave_docstrings_and_comments_out():
    text = '"""A module."""\n\ndef f():\n    """One.\n\n    Two.\n    """\n    # Why.\n    return 1\n'
    assert function_lines(ast.parse(text).body[1]) == 3
    assert code_lines(text) == 2


def test_a_part_of_a_neighbour_is_small_and_has_one_importer_beside_it():
    rooms = {"a.b.part": 39, "a.b.large": 40, "a.b.shared": 9, "a.b.wanted": 9, "a.b.user": 99}
    imported = {
        "a.b": {"a.b.part", "a.b.shared", "a.b.user"},
        "a.b.user": {"a.b.part", "a.b.large", "a.b.shared"},
        "a.b.large": {"a.b.shared"},
        "a.c": {"a.b.wanted"},
    }
    assert parts_of_neighbours(rooms, imported) == {"a.b.part": "a.b.user"}


def test_the_longest_chain_is_found():
    imported = {"a": {"b", "d", "x"}, "b": {"c"}, "c": set(), "d": {"c", "b"}}
    assert longest_chain(frozenset("abcd"), imported) == ("a", "d", "b", "c")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"""Names."""\nfrom a import b\n__all__ = ["b"]\n', True),
        ("from a import b\n\ndef f():\n    return b\n", False),
        ("SIZE = 3\n", False),
    ],
)
def test_a_module_that_defines_nothing_only_hands_on(text, expected):
    assert only_hands_on(ast.parse(text)) == expected


def test_a_base_of_one_is_found_across_files_of_a_package_only():
    trees = {
        "t.a.base": ast.parse("class Base: ...\nclass Near(Base): ...\nclass Two: ...\nclass Lone(Generic[T]): ..."),
        "t.a.only": ast.parse("class Only(Lone[int]): ...\nclass First(Two): ...\nclass Second(base.Two): ..."),
        "t.b.other": ast.parse("class Elsewhere(Near): ..."),
    }
    assert bases_of_one(trees) == {"t.a.base.Lone": "t.a.only.Only"}
