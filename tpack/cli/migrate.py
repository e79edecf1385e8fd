"""``tpack migrate``: rewrite sources for tensorpack and TensorFlow 1 into sources for tpack.

The rewriter is imported when the command runs: it needs LibCST, and help does not.
"""

import argparse
import contextlib
import difflib
import importlib
import io
import os
import sys
import tokenize
from typing import Any, TextIO

from tpack.errors import ConfigError, InputError
from tpack.utils.fs import atomic_path, read_regular
from tpack.utils.lazy import LazyModule, import_optional

_usage = LazyModule("tpack.cli.migrating.usage")

_MOST_BYTES = 1 << 24
_SKIPPED = ("__pycache__", "node_modules", "site-packages")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.description = (
        "Rewrite imports of tensorpack and TensorFlow 1, and names that numpy 2 and Python 3.12 removed, in place. "
        "Prints the changes and the lines you must look at. Running it again changes nothing."
    )
    parser.add_argument("paths", nargs="+", metavar="FILE|DIR", help="Python files, or directories with such")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if something would change")
    parser.add_argument("--diff", action="store_true", help="write nothing; show what would change")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Migrate files; report those that fail on standard error and leave them unchanged.

    Returns:
        The exit code: 1 if a file could not be migrated, or if ``--check`` finds one that would change.

    Raises:
        ConfigError: A path is neither a Python file nor a directory with one.
        DependencyError: LibCST is not installed.
    """
    paths = _files(options.paths)
    import_optional("libcst", "migrate")
    rewriter = importlib.import_module("tpack.cli.migrating.rewriter")
    givers = _givers_of_tensorflow(paths)
    changed, failed, looks = 0, 0, 0
    for path in paths:
        try:
            done = _migrate(path, rewriter, options, gives_tensorflow=path in givers)
        except (ConfigError, InputError, OSError, SyntaxError, UnicodeError) as error:
            sys.stderr.write(f"tpack migrate: {path}: {error}\n")
            failed += 1
            continue
        except (RecursionError, MemoryError):
            limit = sys.getrecursionlimit()
            sys.stderr.write(
                f"tpack migrate: {path}: got an expression or a chain of statements of too many levels: expected fewer "
                f"than Python's recursion limit of {limit} allows; use parts, such as a list for a long sum\n"
            )
            failed += 1
            continue
        changed += bool(done.changes)
        looks += len(done.looks)
    written = "would change" if options.check or options.diff else "changed"
    _told(options).write(
        f"{len(paths)} file(s): {written} {changed}, {looks} line(s) to look at, {failed} could not be migrated\n"
    )
    return int(failed > 0 or (options.check and changed > 0))


def _files(paths: list[str]) -> list[str]:
    """Return the Python files at some paths, each once, or refuse them all before any is written."""
    found: dict[str, None] = {}
    for path in paths:
        if not os.path.isdir(path):
            if not os.path.isfile(path) or not path.endswith(".py"):
                raise ConfigError(f"got the path {path}: expected a Python file (.py) or a directory")
            found[os.path.normpath(path)] = None
            continue
        before = len(found)
        for directory, inner, names in os.walk(path):
            inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in _SKIPPED)
            whole = [os.path.join(directory, name) for name in sorted(names) if name.endswith(".py")]
            found.update(dict.fromkeys(os.path.normpath(file) for file in whole if os.path.isfile(file)))
        if len(found) == before:
            raise ConfigError(f"got the directory {path}: expected another Python file (.py) in it")
    return list(found)


def _givers_of_tensorflow(paths: list[str]) -> set[str]:
    """Return the files whose ``tf`` others get by star imports and need of `tpack.tf1`."""
    sources = {}
    for path in paths:
        # Files that cannot be read are reported when they are migrated.
        with contextlib.suppress(InputError, OSError, SyntaxError, UnicodeError):
            sources[path] = _read(path)[0]
    givers: set[str] = _usage.givers_of_tensorflow(sources)
    return givers


def _read(path: str) -> tuple[str, str]:
    """Return a source and its encoding."""
    content = read_regular(path, _MOST_BYTES)
    encoding = tokenize.detect_encoding(io.BytesIO(content).readline)[0]
    # Decoded as a whole, to keep the ends of lines.
    return content.decode(encoding), encoding


def _migrate(path: str, rewriter: Any, options: argparse.Namespace, *, gives_tensorflow: bool) -> Any:
    """Migrate one file, and print its changes."""
    before, encoding = _read(path)
    done = rewriter.migrate_source(before, gives_tensorflow=gives_tensorflow)
    if done.source != before and not (options.check or options.diff):
        # A link stays a link; its target is written.
        with atomic_path(os.path.realpath(path)) as temporary, open(temporary, "xb") as file:
            file.write(done.source.encode(encoding))
    if options.diff:
        old, new = before.splitlines(keepends=True), done.source.splitlines(keepends=True)
        sys.stdout.writelines(difflib.unified_diff(old, new, path, path))
    for note in [] if options.diff else done.changes:
        sys.stdout.write(f"{path}:{note.line}: {note.text}\n")
    for note in done.looks:
        _told(options).write(f"{path}:{note.line}: LOOK: {note.text}\n")
    return done


def _told(options: argparse.Namespace) -> TextIO:
    """Return the stream for notes: not that of the differences, which another program may read."""
    return sys.stderr if options.diff else sys.stdout
