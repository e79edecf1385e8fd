"""The writer of ``run.json``: the state and the progress of a run, for readers outside the process.

The file is written when training begins and ends, also where it fails before the first step, after each epoch, and at
intervals in an epoch. The cost is bounded:
a step looks at the clock, and a file that takes long to write is written less often.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import socket
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.monitors.run_status import FILENAME, NO_END, write_run
from tpack.utils import logger
from tpack.utils.fs import remove_leftovers, why_not_written
from tpack.version import __version__

WRITE_SECS = 2.0
"""The shortest interval within an epoch."""

_MOST_OF_TIME = 0.01
"""The largest fraction of time for writing."""


class RunFile(Callback):
    """Write ``run.json`` into a directory, in the chief only; a failure is one warning.

    Args:
        directory: the log directory.
        config: the entry ``config``.
    """

    def __init__(self, directory: str, config: Mapping[str, Any]) -> None:
        self._directory = directory
        self._config = dict(config)
        self._status: dict[str, Any] = {}
        self._first: tuple[float, int] | None = None
        self._epoch_began = 0.0
        self._epoch_secs: float | None = None
        self._due_at = 0.0
        self._has_failed = False

    def _before_train(self) -> None:
        self._status = _status(type(self.trainer).__name__, self._config)
        with contextlib.suppress(OSError):
            remove_leftovers(os.path.join(self._directory, FILENAME))
        self._write()

    def _before_epoch(self) -> None:
        self._epoch_began = time.perf_counter()

    def _after_epoch(self) -> None:
        self._epoch_secs = time.perf_counter() - self._epoch_began

    def _trigger_step(self) -> None:
        now = time.perf_counter()
        if now >= self._due_at:
            if self._first is None:
                # The first step takes longer than later ones.
                self._first = now, self.global_step
            self._write()

    def _with_several_steps(self) -> WithSteps:
        return WithSteps()

    def _trigger_epoch(self) -> None:
        self._write()

    def _after_train(self) -> None:
        if not self._status:
            return
        trainer = self.trainer
        self._status["state"] = "failed" if trainer.has_failed else "interrupted" if trainer.interrupted else "finished"
        self._status |= {"reason": trainer.end_reason} if trainer.end_reason else {}
        self._write()

    def _write(self) -> None:
        began = time.perf_counter()
        try:
            write_run(self._directory, {**self._status, "updated": _now(), "progress": self._progress(began)})
        except OSError as error:
            if not self._has_failed:
                path = os.path.join(self._directory, FILENAME)
                logger.warning(f"{path} does not show the progress of this run: {why_not_written(path, error)}")
            self._has_failed = True
        ended = time.perf_counter()
        self._due_at = ended + max(WRITE_SECS, (ended - began) / _MOST_OF_TIME) if self._first else began

    def _progress(self, now: float) -> dict[str, Any]:
        trainer = self.trainer
        progress: dict[str, Any] = {
            "epoch": self.epoch_num,
            "max_epoch": trainer.max_epoch,
            "step": self.local_step,
            "steps_per_epoch": trainer.steps_per_epoch,
            "global_step": self.global_step,
            **({} if self._epoch_secs is None else {"epoch_secs": self._epoch_secs}),
        }
        secs, num_steps = (now - self._first[0], self.global_step - self._first[1]) if self._first else (0.0, 0)
        if secs > 0 and num_steps > 0:
            speed = num_steps / secs
            num_left = (trainer.max_epoch - self.epoch_num + 1) * trainer.steps_per_epoch - self.local_step
            progress["steps_per_sec"] = speed
            progress |= {} if trainer.max_epoch >= NO_END else {"secs_left": max(0, num_left) / speed}
        return progress


def write_failed_start(trainer: Any, error: BaseException) -> None:
    """Write into the log directory that a run has failed before its session was there, unless it is not the chief's.

    Args:
        trainer: the trainer, with its ``run_facts``.
        error: the error.
    """
    directory = logger.get_logger_dir()
    if directory is None or trainer.run_facts is None or not trainer.is_chief:
        return
    first_line = next(iter(str(error).splitlines()), "")
    reason = f"It failed before the first step: {type(error).__name__}: {first_line}"
    status = {**_status(type(trainer).__name__, trainer.run_facts), "state": "failed", "reason": reason}
    progress = {"epoch": 0, "step": 0, "global_step": 0}
    # The error itself is what matters.
    with contextlib.suppress(OSError):
        write_run(directory, {**status, "updated": _now(), "progress": progress})


def _status(trainer: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a run when it begins."""
    keras = sys.modules.get("keras")
    return {
        "state": "running",
        "began": _now(),
        "command": shlex.join([sys.executable, *sys.argv]),
        "directory": os.getcwd(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "versions": {
            "tpack": __version__,
            "tensorflow": str(tf.__version__),
            # Only if the program uses it.
            **({} if keras is None else {"keras": str(getattr(keras, "__version__", "unknown"))}),
            "numpy": np.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        "config": {"trainer": trainer, **config},
    }


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
