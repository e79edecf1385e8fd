"""Change in a copy of other people's code what an owner would change to run it: import lines, and Python 2.

Each rule has a name, under which the report counts the lines that it changed.
"""

import ast
import re
from collections import Counter
from pathlib import Path

# Modules that today's TensorFlow still has under these paths; all others are looked up in `tpack.tf1`.
KEPT = r"(?!python\b|core\b|examples\b|compiler\b|tools\b|keras\b|compat\b|data\b|gfile\b|logging\b)"

IMPORTS = [
    (r"^(\s*)import tensorflow\.compat\.v1 as (\w+)", r"\1import tpack.tf1 as \2"),
    (r"^(\s*)from tensorflow\.compat import v1 as (\w+)", r"\1import tpack.tf1 as \2"),
    (r"^(\s*)from tensorflow\.compat\.v1 import ", r"\1from tpack.tf1 import "),
    (r"^(\s*)import tensorflow as (\w+)", r"\1import tpack.tf1 as \2"),
    (r"^(\s*)import tensorflow\s*(#.*)?$", r"\1import tpack.tf1 as tensorflow"),
    (r"^(\s*)from tensorflow import (?!keras\b)", r"\1from tpack.tf1 import "),
    (r"^(\s*)from tensorflow\.python\.ops import (rnn_cell|rnn_cell_impl)\b", r"\1from tpack.tf1.nn import rnn_cell"),
    (r"^(\s*)from tensorflow\.python\.ops\.(rnn_cell|rnn_cell_impl) import ", r"\1from tpack.tf1.rnn_cell import "),
    (
        r"^(\s*)from tensorflow\.python\.layers\.(?:base|convolutional|core|layers|normalization|pooling) import ",
        r"\1from tpack.tf1.layers import ",
    ),
    (r"^(\s*)from tensorflow\.python\.layers import (base|core|convolutional)\b", r"\1from tpack.tf1.layers import \2"),
    (r"^(\s*)from tensorflow\.python\.estimator(?!\.canned)[\w.]* import ", r"\1from tpack.tf1.estimator import "),
    # The files that ``tf.contrib`` was made of: what they had is in the namespace itself.
    (r"^(\s*)from tensorflow\.contrib\.(\w+)\.python\.[\w.]+ import ", r"\1from tpack.tf1.contrib.\2 import "),
    (rf"^(\s*)import tensorflow\.{KEPT}([\w.]+) as (\w+)", r"\1import tpack.tf1.\2 as \3"),
    (rf"^(\s*)from tensorflow\.{KEPT}([\w.]+) import ", r"\1from tpack.tf1.\2 import "),
]
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
    """Rewrite all Python files under `folder`, and return how many lines were changed, by kind."""
    counts: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.py")):
        if path.is_file():
            text = path.read_bytes().decode("utf-8", errors="replace")
            changed, counts_here = rewrite(text)
            counts.update(counts_here)
            path.write_text(changed, encoding="utf-8")
    return +counts


def rewrite(text: str) -> tuple[str, Counter[str]]:
    """Return `text` as it is to run, and how many lines were changed, by kind."""
    counts: Counter[str] = Counter()
    if not _parses(text):
        text = text.lstrip("\ufeff").replace("\r\n", "\n").expandtabs(8)
        text = _apply(PYTHON_2, text, "Python 2", counts)
    text = _apply(IMPORTS, text, "imports", counts)
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
