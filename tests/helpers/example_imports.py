"""Imports what the examples import, and none of them: what a process has loaded that runs them as forks of itself."""

import ast

from tests.helpers.examples import FOLDER

EXAMPLES = sorted(FOLDER.glob("*.py"))
NAMES = {path.stem for path in EXAMPLES}

for _path in EXAMPLES:
    for _node in ast.parse(_path.read_text(encoding="utf-8")).body:
        if isinstance(_node, ast.Import | ast.ImportFrom):
            _module = _node.module if isinstance(_node, ast.ImportFrom) else _node.names[0].name
            if _module not in NAMES:
                exec(ast.unparse(_node))
