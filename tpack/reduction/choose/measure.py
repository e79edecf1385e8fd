"""Measure one candidate in a process of its own, with a limit on its time, whatever happens to that process."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.choose.candidates import LIKELY_CANDIDATES
from tpack.reduction.measurement import Measurement
from tpack.reduction.workload import Workload

_WORKER = (sys.executable, "-m", "tpack.reduction.choose.measuring_process")


@dataclass(frozen=True)
class MeasuringOptions:
    """What is measured, and how.

    Attributes:
        candidates: names for `make_candidate`. Those that cannot serve the towers are left out.
        steps: how many steps a round has.
        rounds: how often they are timed; the median counts.
        timeout_secs: how long the whole process may take, its start included. One that hangs, as NCCL can, is killed.
        session_config: the ``ConfigProto`` of the session that will train, or None.
        worker: the command of the measuring process.

    Raises:
        ConfigError: A number is not positive.
    """

    candidates: Sequence[str] = LIKELY_CANDIDATES
    steps: int = 5
    rounds: int = 3
    timeout_secs: float = 120.0
    session_config: Any = None
    worker: Sequence[str] = _WORKER

    def __post_init__(self) -> None:
        for name in ("steps", "rounds", "timeout_secs"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"wanted {name} to be positive, got {getattr(self, name)!r}")

    @property
    def config_digits(self) -> str:
        """The session's configuration as text."""
        config = tf.ConfigProto() if self.session_config is None else self.session_config
        return str(config.SerializeToString(deterministic=True).hex())


def measure_candidate(name: str, workload: Workload, options: MeasuringOptions) -> Measurement:
    """Measure a candidate in a new process. Nothing that goes wrong there is raised; it is the row's error.

    Args:
        name: the candidate.
        workload: the towers and their gradients.
        options: how to measure.

    Returns:
        The candidate's row.
    """
    request = {
        "candidate": name,
        "workload": workload.as_json(),
        "steps": options.steps,
        "rounds": options.rounds,
        "session_config": options.config_digits,
    }
    try:
        done = subprocess.run(
            list(options.worker),
            input=json.dumps(request),
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=options.timeout_secs,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Measurement(name, error=f"killed after {options.timeout_secs:g} s")
    except OSError as error:
        return Measurement(name, error=f"the measuring process could not be started: {error}")
    if done.returncode:
        return Measurement(name, error=f"exit code {done.returncode}: {_last_line(done.stderr)}")
    try:
        return Measurement.from_json(json.loads(_last_line(done.stdout)))
    except (ValueError, TypeError, KeyError) as error:
        return Measurement(name, error=f"an answer that cannot be read: {error}")


def _environment() -> dict[str, str]:
    """Return the environment of the new process, which finds modules where this one does."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, "PYTHONPATH": path}


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
