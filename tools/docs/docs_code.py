"""Run the Python and bash code of the documentation, page by page.

    python -m tools.docs.docs_code [PAGE...]        such as docs/keras.md; by default all pages and the README

The code of a page is one program, in a directory of its own, with ``examples`` in it: later blocks know the names of
earlier ones, and each finds an empty default graph. What blocks of text say is printed has to be printed.
`tools.docs.docs_pages` says how a page leaves something out.
"""

import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.helpers import preloaded
from tests.helpers.source import ROOT
from tools.docs.docs_pages import Block, blocks, pages

ONE_STREAM = "import os, sys; os.dup2(1, 2); sys.stdout.reconfigure(line_buffering=True)"
"""What is run first, so that what is printed and what is logged stand in their order."""
NEW_GRAPH = '(m := __import__("sys").modules.get("tensorflow")) and m.compat.v1.reset_default_graph()'
"""What is run between blocks; TensorFlow is not loaded for it."""


def program(page: Path) -> str:
    """Return the code of a page as one Python program, in which each line of code has the number it has in the page."""
    lines = [ONE_STREAM, *([""] * page.read_text(encoding="utf-8").count("\n"))]
    for block in blocks(page):
        if block.mark == "not run" or block.language not in ("python", "bash"):
            continue
        first = block.line - 1
        if block.language == "bash":
            lines[first] = _call_of_bash(block)
            continue
        code = block.text.rstrip("\n").split("\n")
        lines[first : first + len(code)] = code
        # The line of the fence; a comment's last line may end with its code.
        if block.mark != "before":
            lines[first + len(code)] = NEW_GRAPH
    return "\n".join(lines) + "\n"


def _call_of_bash(block: Block) -> str:
    return f'__import__("subprocess").run(["bash", "-euo", "pipefail", "-c", {block.text!r}], check=True)'


def missing_lines(page: Path, printed: str) -> list[str]:
    """Return the lines that a page says are printed, and that are not, or in another order; ``...`` is anything."""
    missing = []
    rest = re.sub(r"\x1b\[[0-9;]*m", "", printed).splitlines()
    for block in (block for block in blocks(page) if block.mark == "printed"):
        for number, line in enumerate(block.text.splitlines()):
            wanted = re.compile(r"\s*" + ".*".join(re.escape(part.strip()) for part in line.split("...")))
            at = next((index for index, given in enumerate(rest) if wanted.search(given)), None)
            if at is None:
                missing.append(f"{page.name}:{block.line + number}: {line}")
            else:
                rest = rest[at + 1 :]
    return missing


def run(page: Path) -> str:
    """Run the code of a page; return what is wrong with it, or nothing."""
    with tempfile.TemporaryDirectory(prefix="docs_code_") as folder:
        script = Path(folder, f"{page.stem}_md.py")
        script.write_text(program(page), encoding="utf-8")
        Path(folder, "examples").symlink_to(ROOT / "examples")
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        done = preloaded.run(script, env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}, cwd=Path(folder))
    if os.environ.get("DOCS_CODE_SHOW"):
        print(done.stdout)
    if done.returncode:
        return f"exit code {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return "".join(f"is not printed: {line}\n" for line in missing_lines(page, done.stdout))


def main(arguments: Sequence[str]) -> int:
    """Run the pages that are named, or all; return how many are wrong."""
    wrong = 0
    for page in [Path(name).resolve() for name in arguments] or pages():
        parts = blocks(page)
        run_here = [block for block in parts if block.language in ("python", "bash") and block.mark in ("", "printed")]
        if not run_here:
            continue
        begun = time.monotonic()
        problem = run(page)
        wrong += bool(problem)
        print(
            f"{page.name}: {len(run_here)} blocks, {time.monotonic() - begun:.0f} s",
            "WRONG" if problem else "",
            flush=True,
        )
        print(problem, end="")
    return wrong


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
