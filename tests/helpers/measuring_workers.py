"""Stand-ins for the process that measures a candidate: they answer at once, wrongly, or never."""

import sys

_READ = "import json, sys; request = json.load(sys.stdin); name = request['candidate']; "


def python(code: str) -> tuple[str, ...]:
    """Return the command of a process that runs `code`, where ``name`` is the candidate's."""
    return (sys.executable, "-S", "-c", _READ + code)


def answering(secs: dict[str, float]) -> tuple[str, ...]:
    """Return the command of a process that gives each candidate its time, and fails for others."""
    return python(f"print(json.dumps(dict(name=name, secs=[{secs!r}[name]] * 3, graph_ops=1)))")
