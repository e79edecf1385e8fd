"""Python functions in new interpreters: the command, and JSON in and out of a child that ends by itself.

It imports only the standard library, for commands that run where an installation is broken. Longer-lived children, with
a lifeline to their owner, are in `tpack.utils.child_process`.
"""

import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_BOOT = (
    "import importlib, json, sys; told = json.loads(sys.argv[1]); "
    "sys.path[:] = dict.fromkeys([*told['path'], *filter(None, sys.path)]); "
    "sys.exit(getattr(importlib.import_module(told['module']), told['function'])(**told['arguments']))"
)


class ChildError(Exception):
    """Reason why a child gave no answer, in a few words."""


def python_command(
    module: str,
    function: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    path: Sequence[str] | None = None,
    executable: str = sys.executable,
) -> list[str]:
    """Return a command that calls a function in a new interpreter and exits with its result.

    Args:
        module: the module of the function.
        function: its name.
        arguments: its keyword arguments, as JSON can hold them.
        path: directories in front of the interpreter's own ``sys.path``; None are those of this process.
        executable: the interpreter.
    """
    if path is None:
        path = [entry or os.getcwd() for entry in sys.path if isinstance(entry, str)]
    told = {"path": list(path), "module": module, "function": function, "arguments": dict(arguments or {})}
    return [executable, "-c", _BOOT, json.dumps(told)]


def python_child(
    command: Sequence[str], request: object = None, *, timeout_secs: float, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a command that reads JSON from standard input, and return the last line of its output that is a JSON object.

    Args:
        command: such as `python_command` returns.
        request: the input; None is an empty one.
        timeout_secs: the time limit, after which it is killed.
        environment: its variables; None are those of this process.

    Raises:
        ChildError: It could not be started, failed, took too long, or printed no answer.
    """
    # Not for those who only want a command.
    subprocess = importlib.import_module("subprocess")
    try:
        done = subprocess.run(
            list(command),
            **({"stdin": subprocess.DEVNULL} if request is None else {"input": json.dumps(request)}),
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_secs,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ChildError(f"killed after {timeout_secs:g} s") from error
    except OSError as error:
        raise ChildError(f"it could not be started: {error}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise ChildError(f"exit code {done.returncode}: {last}")
    for line in reversed(done.stdout.splitlines()):
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        if isinstance(answer, dict):
            return answer
    raise ChildError("it ended without an answer")
