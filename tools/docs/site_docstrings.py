"""What griffe does with docstrings while the site is built: the code of an ``Example:`` is shown as code.

The docstrings hold it indented below the word, as it is; Markdown would take its lines for one paragraph.
"""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^( *)Example:\n((?:\1 {4}.*\n?|\s*\n)+)", re.M)
_ALREADY_CODE = ("::", "```", ">>>")


class ExamplesAsCode(griffe.Extension):
    """Puts the code of examples between fences."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(match: "re.Match[str]") -> str:
    indent, code = match[1] + " " * 4, match[2].rstrip()
    first = code.strip().split("\n")[0].strip()
    if first.startswith(_ALREADY_CODE):
        return match[0]
    return f"{match[1]}Example:\n{indent}```python\n{code}\n{indent}```\n"
