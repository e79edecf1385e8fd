"""Selection of tests: the core's ring, parts of the suite by name, and the annexes that a change reaches.

    python -m tools.select_tests                  the core, and what the working tree's changes reach
    python -m tools.select_tests --all            everything
    python -m tools.select_tests core cli ...     these parts: rings, jobs of CI, folders or files

It prints arguments for pytest, one a line. A test belongs to the ring of the part of tpack that it mirrors.

A change is compared with the place where the branch left ``origin/main`` (or ``main``), uncommitted files included. A
test of an annex is selected if the change touches it, what it imports, or what annexes on the way import, by the graph
of imports. In the core the way ends at the border of the package that it enters: what is behind is the business of the
core's tests, which always run.
"""

import re
import subprocess
import sys
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from tests.helpers.source import ROOT, Module, imports, modules_under

# The first part of a path below ``tests``, or the name of a test file beside them without ``test_``.
CORE = frozenset(
    [
        *("errors", "version", "types", "utils", "compat", "schedules", "tower", "copying", "graph_copy", "reduction"),
        *("tfutils", "step", "graph_builder", "input_source", "callbacks", "dataflow", "train", "predict", "meta"),
        *("public_names", "public_names_wrong_arguments"),
    ]
)
PROCESSES = frozenset(["cluster", "multi_worker", "multi_process", "multiprocess", "cli"])
# The jobs of CI, which share the suite between them; "rest" is what the others leave.
JOBS = {"core": CORE, "tf1": frozenset({"tf1"}), "processes": PROCESSES}

# Changes of these reach every test; those of folders outside of the package reach the tests of one part.
EVERYTHING = ("setup.py", "pyproject.toml", "tests/conftest.py", "scripts/test", "scripts/make-venv", ".ci/")
OUTSIDE = {"examples/": "integration", "benchmarks/": "benchmarks"}


def part_of(path: str) -> str:
    """Return the part of the tree that a path such as ``tests/cli/test_watch.py`` or ``tpack/ray.py`` belongs to."""
    first = Path(path).parts[1]
    return first.removesuffix(".py").removeprefix("test_")


def is_core(path: str) -> bool:
    """Return whether a file of ``tests`` or ``tpack`` belongs to the core; ``tpack/__init__.py`` does."""
    return part_of(path) in CORE | {"__init__"}


def job_of(path: str) -> str:
    """Return the job of CI that runs a test file."""
    return next((job for job, parts in JOBS.items() if part_of(path) in parts), "rest")


def test_files() -> list[str]:
    """Return every test file, as a path from the root of the project."""
    paths = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]
    return sorted(str(path) for path in paths if path.parts[1] not in ("helpers", "trials", "data"))


def named(names: Iterable[str]) -> list[str]:
    """Return the test files of parts.

    Args:
        names: "core", "annexes", a job of CI, a folder below ``tests``, or the path of a folder or file.

    Raises:
        SystemExit: A name stands for no test.
    """
    selected: set[str] = set()
    for name in names:
        path = name if name.startswith("tests/") else f"tests/{name}"
        found = {
            file
            for file in test_files()
            if name in (job_of(file), part_of(file), "core" if is_core(file) else "annexes")
            or file == path
            or file.startswith(f"{path.rstrip('/')}/")
        }
        if not found:
            jobs = ", ".join([*JOBS, "rest"])
            sys.exit(f"select_tests got {name!r}: expected annexes, {jobs}, or a folder or file below tests")
        selected |= found
    return sorted(selected)


def changed_files() -> list[str]:
    """Return the files that differ from where the branch left the main one, those that git does not know included."""
    bases = [_git("merge-base", "HEAD", main) for main in ("origin/main", "main")]
    base = next((lines[0] for lines in bases if lines), "HEAD")
    return [*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


@cache
def _modules() -> dict[str, Module]:
    return {module.name: module for folder in ("tpack", "tests") for module in modules_under(folder)}


@cache
def _imported(name: str) -> frozenset[str]:
    """Return the modules that a module imports, all of a package if it imports a package, which loads names lazily."""
    modules = _modules()
    found: set[str] = set()
    for imported in imports(modules[name].tree):
        target = imported.target(modules.keys())
        if target == "tpack":
            found |= {"tpack", "tpack.public_names"}
        elif target in modules and modules[target].is_package and target != name:
            found |= {other for other in modules if f"{other}.".startswith(f"{target}.")}
        elif target in modules:
            found.add(target)
    if name.startswith("tests."):
        # Helpers that are run as programs are named in text.
        words = re.findall(r"tests[./]helpers[./](\w+)|\b(\w+)\.py\b", modules[name].text)
        found |= {f"tests.helpers.{word}" for pair in words for word in pair} & modules.keys()
    return frozenset(found - {name})


def _mirrored(path: str) -> list[str]:
    """Return the module that a test file mirrors by its name, if there is one."""
    *folders, file = Path(path).with_suffix("").parts[1:]
    words = file.removeprefix("test_").split("_")
    names = [".".join(["tpack", *folders, "_".join(words[:count])]) for count in range(len(words), 0, -1)]
    return [name for name in names if name in _modules()][:1]


@cache
def reach(path: str) -> frozenset[str]:
    """Return the files whose change a test file is to see: on ways of imports, up to the first packages of the core."""
    modules = _modules()
    name = ".".join(Path(path).with_suffix("").parts)
    waiting, seen = [name, *_mirrored(path)], set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        inside = current.startswith("tpack.") and is_core(str(modules[current]))
        package = ".".join(current.split(".")[:2])
        waiting += [each for each in _imported(current) if not inside or f"{each}.".startswith(f"{package}.")]
    return frozenset(str(modules[each]) for each in seen)


def reached(changed: Collection[str]) -> list[str]:
    """Return the test files of annexes that a change reaches."""
    annexes = [file for file in test_files() if not is_core(file)]
    if any(file.startswith(EVERYTHING) for file in changed):
        return annexes
    parts = {part for file in changed for folder, part in OUTSIDE.items() if file.startswith(folder)}
    # Data of tests, pages and stubs are in no graph of imports.
    parts |= {part_of(file) for file in changed if file.startswith(("tests/", "tpack/")) and not file.endswith(".py")}
    return [file for file in annexes if part_of(file) in parts or not reach(file).isdisjoint(changed)]


def main(arguments: list[str]) -> list[str]:
    """Return the arguments for pytest that a command line asks for."""
    if "--all" in arguments:
        return ["tests"]
    if arguments:
        return named(arguments)
    return named(["core"]) + reached(changed_files())


if __name__ == "__main__":
    print("\n".join(main(sys.argv[1:])))
