"""The gradients of a training script: it is run, in a process of its own, until it has built its first tower.

That process is this module. What the script would train is not trained, and the directory that it names for its log is
neither moved nor deleted: another one takes its place.

    python -m tpack.cli.gradient_shapes RESULT.json train.py --its arguments
"""

import importlib
import json
import os
import runpy
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tpack.errors import ConfigError


@dataclass(frozen=True)
class ScriptGradients:
    """The gradients of one tower.

    Attributes:
        shapes: those of the dense ones.
        dtypes: the names of their dtypes.
        num_sparse: how many others there are.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    num_sparse: int


def gradients_of_script(command: str, *, timeout_secs: float) -> ScriptGradients:
    """Return the gradients of a script that trains with a trainer of tpack.

    Args:
        command: the script and its arguments, as in a shell.
        timeout_secs: how long it may take until its first tower is built.

    Raises:
        ConfigError: There is no such script, it fails, takes too long or ends before it has built a tower, or a
            gradient has no shape that is fully known.
    """
    words = shlex.split(command)
    if not words or not os.path.isfile(words[0]):
        raise ConfigError(f"expected a Python script and its arguments in --script, got {command!r}")
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "gradients.json")
        worker = [sys.executable, "-m", "tpack.cli.gradient_shapes", path, *words]
        try:
            done = subprocess.run(
                worker, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_secs, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ConfigError(f"{command!r} built no tower within {timeout_secs:g} s (--timeout)") from error
        if not os.path.exists(path):
            last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise ConfigError(
                f"{command!r} ended with exit code {done.returncode} before a trainer with one cost had built a tower: "
                f"{last}"
            )
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    shapes = tuple(tuple(shape) for shape in found["shapes"])
    if any(None in shape for shape in shapes):
        raise ConfigError(f"a gradient of {command!r} has no fully known shape: {shapes}")
    return ScriptGradients(shapes, tuple(found["dtypes"]), found["num_sparse"])


class _Found(BaseException):
    """Ends the script; no handler of errors in it is meant to catch it."""


def main() -> None:
    """Run the script of the command line, and write its gradients to the file that stands before it."""
    result, script, *_ = sys.argv[1:]
    single_cost = importlib.import_module("tpack.train.single_cost")
    logger = importlib.import_module("tpack.utils.logger")
    # In this process nothing else runs, and only functions of tpack are replaced.
    vars(single_cost).update(make_grad_fn=_telling(single_cost.make_grad_fn, result))
    set_logger_dir = logger.set_logger_dir
    instead = os.path.join(os.path.dirname(result), "log")
    vars(logger).update(set_logger_dir=lambda *_, **__: set_logger_dir(instead, "k"))
    sys.argv = sys.argv[2:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except _Found:
        return


def _telling(make_grad_fn: Callable[..., Any], result: str) -> Callable[..., Any]:
    """Return a `make_grad_fn` whose functions write what they return to a file, and end the script."""

    def make(*args: Any, **kwargs: Any) -> Callable[[], Any]:
        grad_fn = make_grad_fn(*args, **kwargs)

        def tell() -> None:
            grads = [grad for grad, _ in grad_fn()]
            dense = [grad for grad in grads if not hasattr(grad, "indices")]
            shapes = tuple(tuple(grad.shape.as_list()) for grad in dense)
            found = ScriptGradients(shapes, tuple(grad.dtype.name for grad in dense), len(grads) - len(dense))
            with open(f"{result}.part", "w", encoding="utf-8") as file:
                json.dump(asdict(found), file)
            os.replace(f"{result}.part", result)
            raise _Found

        return tell

    return make


if __name__ == "__main__":
    main()
