"""Remember on disk what was measured, so that the same towers with the same gradients are measured once.

There is one file for each question: devices, gradients, versions, configuration and candidates. It holds the question
too, so a file is only ever taken as the answer to its own. A file that cannot be read is no error but a
warning, and is written anew.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.reduction.choose.measure import MeasuringOptions
from tpack.reduction.measurement import Measurement
from tpack.reduction.workload import Workload
from tpack.utils import logger
from tpack.utils.fs import atomic_write, mkdir_p
from tpack.version import __version__

CACHE_VARIABLE = "TPACK_CACHE"
"""The environment variable that names another directory for what tpack remembers."""


class ChoiceCache:
    """The tables of earlier measurements, in a directory.

    Args:
        directory: where; by default ``reduction`` below `cache_directory` of the moment.
        is_write_only: answer nothing, so that everything is measured again.
    """

    def __init__(self, directory: str | None = None, *, is_write_only: bool = False) -> None:
        self._directory = directory or os.path.join(cache_directory(), "reduction")
        self._is_write_only = is_write_only

    def load(self, question: Mapping[str, Any]) -> tuple[Measurement, ...] | None:
        """Return the rows that were stored for a question, or None. A damaged file counts as none, with a warning."""
        if self._is_write_only:
            return None
        path = self.path(question)
        try:
            return _read(path, question)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            logger.warning(f"What was measured before cannot be read from {path}, and is measured again: {error!r}")
            return None

    def store(self, question: Mapping[str, Any], rows: Sequence[Measurement]) -> None:
        """Store the rows of a question. Where nothing can be written, a warning says so."""
        path = self.path(question)
        try:
            mkdir_p(self._directory)
            with atomic_write(path) as file:
                json.dump({"question": _plain(question), "rows": [row.as_json() for row in rows]}, file, indent=1)
        except OSError as error:
            logger.warning(f"What was measured cannot be kept in {path}: {error}")

    def path(self, question: Mapping[str, Any]) -> str:
        """Return the file of a question."""
        digits = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:24]
        return os.path.join(self._directory, f"{digits}.json")


def cache_directory() -> str:
    """Return ``$TPACK_CACHE``, or ``tpack`` in the user's directory for caches."""
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return os.path.expanduser(own)
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tpack")


def make_question(workload: Workload, candidates: Sequence[str], options: MeasuringOptions) -> dict[str, Any]:
    """Return everything that the answer depends on, as plain data."""
    gpus = tf.config.list_physical_devices("GPU")
    return {
        "workload": workload.as_json(),
        "candidates": list(candidates),
        "session_config": options.config_digits,
        "cpus": os.cpu_count(),
        "gpus": [str(tf.config.experimental.get_device_details(gpu).get("device_name", "")) for gpu in gpus],
        "tensorflow": tf.__version__,
        "tpack": __version__,
    }


def _read(path: str, question: Mapping[str, Any]) -> tuple[Measurement, ...]:
    with open(path, encoding="utf-8") as file:
        stored = json.load(file)
    if stored["question"] != _plain(question):
        raise ValueError("it answers another question")
    return tuple(Measurement.from_json(row) for row in stored["rows"])


def _plain(question: Mapping[str, Any]) -> Any:
    """Return the question as it comes back from JSON, where tuples are lists."""
    return json.loads(json.dumps(question))
