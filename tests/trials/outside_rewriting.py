"""Change in a copy of other people's code what Python 3 and numpy 2 force, and `tpack migrate` leaves.

Each rule has a name, under which the report counts the changed lines.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

TAKEN_AWAY = [(r"\.tostring\(\)", ".tobytes()")]
PYTHON_2 = [
    (r"^(\s*)print >> ?sys\.stderr,\s*(.+)$", r"\1print(\2)"),
    (r"^(\s*)print\s*$", r"\1print()"),
    (r"^(\s*)print[ \t]+(?!\()(.*[^,\\])\s*,?\s*$", r"\1print(\2)"),
    (r"^(\s*)print[ \t]*(\(.*\)[ \t]*[%,].*[^,\\])\s*$", r"\1print(\2)"),
    (r"except (\w[\w.]*|\([\w., ]+\)), ?(\w+):", r"except \1 as \2:"),
    (r"\b0([0-7]{3})\b", r"0o\1"),
    (r"(?<=[\s(\[])(\d+)L\b", r"\1"),
    (r"\bur'", "r'"),
]
PYTHON_2_METHODS = [
    (r"\.iter(items|values|keys)\(\)", r".\1()"),
    (r"\.has_key\(([^()]+)\)", r".__contains__(\1)"),
    (r"^(\s*)def next\(self\):", r"\1def __next__(self):\n\1  return self.next()\n\n\1def next(self):"),
]


def rewrite_folder(folder: Path) -> Counter[str]:
    """Rewrite all Python files under `folder`, and return the number of changed lines by kind."""
    counts: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.py")):
        if path.is_file():
            text = path.read_bytes().decode("utf-8", errors="replace")
            changed, counts_here = rewrite(text)
            counts.update(counts_here)
            path.write_text(changed, encoding="utf-8")
    return +counts


def run_2to3(folder: Path, patterns: tuple[str, ...]) -> Counter[str]:
    """Run 2to3 on files of `folder`, and return their number as that of changes; it comes with Python up to 3.12."""
    files = sorted(str(path) for pattern in patterns for path in folder.glob(pattern))
    if files:
        subprocess.run([sys.executable, "-W", "ignore", "-m", "lib2to3", "-w", "-n", "--no-diffs", *files], check=True)
    return +Counter({"Python 2": len(files)})


def rewrite(text: str) -> tuple[str, Counter[str]]:
    """Return the new text, and the number of changed lines by kind."""
    counts: Counter[str] = Counter()
    if not _parses(text):
        text = text.lstrip("\ufeff").replace("\r\n", "\n").expandtabs(8)
        text = _apply(PYTHON_2, text, "Python 2", counts)
    text = _apply(TAKEN_AWAY, text, "numpy", counts)
    text = _apply(PYTHON_2_METHODS, text, "Python 2", counts)
    return text, counts


def _apply(rules: list[tuple[str, str]], text: str, kind: str, counts: Counter[str]) -> str:
    for pattern, replacement in rules:
        text, number = re.subn(pattern, replacement, text, flags=re.MULTILINE)
        counts[kind] += number
    return text


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True
