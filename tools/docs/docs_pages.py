"""The pages of the documentation as tests and ``scripts/docs`` see them: their blocks of code, links and headings.

A block of code is what stands between two fences. Those of Python and bash are run by `tools.docs.docs_code`, and
comments in front of a block, which readers do not see, say what is special about it:

    <!-- before: CODE -->       is run as a part of the page, where it stands: what the block takes as given
    <!-- goes on from PAGE -->  the first block of another page is run where it stands
    <!-- not run: REASON -->    the next block is not run
    <!-- printed -->            the next block, of text, is printed by the code: each line is found, in this order
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.source import ROOT

DOCS = ROOT / "docs"
LANGUAGES = ("python", "bash", "text", "yaml", "toml", "json")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_COMMENT = re.compile(r"<!-- (before|not run|printed)(?::\s(.*?))?\s*-->", re.S)
_GOES_ON = re.compile(r"<!-- goes on from (\S+\.md) -->")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A block of code, or what a comment has to be run before one.

    Attributes:
        page: The page.
        line: The number of its first line of code in the page.
        language: What stands behind the fence; ``python`` for what is run before a block.
        text: The code.
        mark: ``before``, ``not run``, ``printed``, or nothing.
        reason: Why it is not run.
    """

    page: Path
    line: int
    language: str
    text: str
    mark: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def pages() -> list[Path]:
    """Return all pages with code or links, those made from docstrings left out, and the README."""
    return [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in the order in which they stand there.

    Raises:
        ValueError: A comment that concerns the next block has none right after it.
    """
    text = page.read_text(encoding="utf-8")
    found = [(match.start(), match) for match in _FENCE.finditer(text)]
    comments = [match for match in _COMMENT.finditer(text) if not _within(match.start(), found)]
    marks = {_next_fence(page, text, match): match for match in comments if match[1] != "before"}
    made = [_fenced(page, text, match, marks.get(start)) for start, match in found]
    made += [_before(page, text, match) for match in comments if match[1] == "before"]
    made += [_first_of(page, _line(text, match.start()), match[1]) for match in _GOES_ON.finditer(text)]
    return sorted(made, key=lambda block: block.line)


def links(page: Path) -> Iterator[str]:
    """Yield what the links and pictures of a page lead to, code left out."""
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text(encoding="utf-8")))
    yield from _LINK.findall(text)


def _within(start: int, fences: list[tuple[int, "re.Match[str]"]]) -> bool:
    return any(first < start < match.end() for first, match in fences)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _next_fence(page: Path, text: str, comment: "re.Match[str]") -> int:
    between = re.match(r"\s*", text[comment.end() :])
    start = comment.end() + (between.end() if between else 0)
    if not text.startswith("```", start):
        raise ValueError(f"{page.name}:{_line(text, comment.start())}: no block of code follows '{comment[0]}'")
    return start


def _fenced(page: Path, text: str, match: "re.Match[str]", mark: "re.Match[str] | None") -> Block:
    kind, reason = (mark[1], mark[2] or "") if mark else ("", "")
    return Block(page, _line(text, match.start(2)), match[1], match[2], kind, reason)


def _before(page: Path, text: str, match: "re.Match[str]") -> Block:
    return Block(page, _line(text, match.start(2)), "python", f"{match[2]}\n", "before")


def _first_of(page: Path, line: int, other: str) -> Block:
    """Return what runs the first block of another page, in one line."""
    first = next(block for block in blocks(page.parent / other) if block.language == "python")
    return Block(page, line, "python", f"exec(compile({first.text!r}, {other!r}, 'exec'))\n", "before")
