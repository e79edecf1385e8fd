"""Gradients of a training script, which runs in a process of its own until its first tower is built.

Nothing is trained, and the script's log directory is replaced by another, so it is neither moved nor deleted.
"""

import importlib
import json
import os
import runpy
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tpack.errors import ConfigError
from tpack.utils.python_child import ChildError, python_child, python_command


@dataclass(frozen=True)
class ScriptGradients:
    """The gradients of one tower.

    Attributes:
        shapes: the shapes of the dense ones.
        dtypes: the names of their dtypes.
        num_sparse: the number of sparse ones.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    num_sparse: int


def gradients_of_script(command: str, *, timeout_secs: float) -> ScriptGradients:
    """Return the gradients of a script that trains with a trainer of tpack.

    Args:
        command: the script and its arguments, as in a shell.
        timeout_secs: the time limit for building its first tower.

    Raises:
        ConfigError: The script does not exist, fails, takes too long or ends before it has built a tower, or the shape
            of a gradient is not fully known.
    """
    words = shlex.split(command)
    if not words or not os.path.isfile(words[0]):
        raise ConfigError(f"--script got {command!r}: expected a Python script and its arguments")
    with tempfile.TemporaryDirectory() as directory:
        worker = python_command(__name__, "run_script", {"words": words, "log_dir": os.path.join(directory, "log")})
        try:
            found = python_child(worker, timeout_secs=timeout_secs)
        except ChildError as error:
            reason = f"{error} (--timeout {timeout_secs:g})"
            raise ConfigError(
                f"{command!r} ended before a trainer with one cost had built a tower: {reason}"
            ) from error
    shapes = tuple(tuple(shape) for shape in found["shapes"])
    if any(None in shape for shape in shapes):
        raise ConfigError(f"{command!r} has gradients of the shapes {shapes}: expected fully known ones")
    return ScriptGradients(shapes, tuple(found["dtypes"]), found["num_sparse"])


class _Found(BaseException):
    """Raised to end the script when the gradients are known."""


def run_script(words: Sequence[str], log_dir: str) -> None:
    """Run a script with its arguments until its first tower is built, and print the gradients as JSON.

    It has a process of its own, and ``log_dir`` replaces the script's log directory.
    """
    single_cost = importlib.import_module("tpack.train.single_cost")
    logger = importlib.import_module("tpack.utils.logger")
    make_grad_fn, set_logger_dir, found = single_cost.make_grad_fn, logger.set_logger_dir, []

    def make(*args: Any, **kwargs: Any) -> Callable[[], Any]:
        grad_fn = make_grad_fn(*args, **kwargs)

        def report() -> None:
            grads = [grad for grad, _ in grad_fn()]
            dense = [grad for grad in grads if not hasattr(grad, "indices")]
            shapes = tuple(tuple(grad.shape.as_list()) for grad in dense)
            found.append(ScriptGradients(shapes, tuple(grad.dtype.name for grad in dense), len(grads) - len(dense)))
            raise _Found

        return report

    # Nothing else runs in this process, and only functions of tpack are replaced.
    vars(single_cost).update(make_grad_fn=make)
    vars(logger).update(set_logger_dir=lambda *_, **__: set_logger_dir(log_dir, "k"))
    sys.argv = list(words)
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    try:
        runpy.run_path(words[0], run_name="__main__")
    except BaseException:
        if not found:
            raise
    if found:
        sys.stdout.write(f"\n{json.dumps(asdict(found[0]))}\n")
