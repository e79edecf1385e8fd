"""Run the main function of a training script as if it were the process: its own graph, directory and random numbers."""

import gc
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import tensorflow.compat.v1 as tf

from tpack.utils import logger
from tpack.utils.rng import fix_rng_seed


@dataclass(frozen=True)
class ScriptRun:
    """What a script left: its log directory, and what main returned."""

    log_dir: Path
    result: Any

    @property
    def stats(self) -> list[dict[str, Any]]:
        """The statistics of each epoch."""
        return json.loads((self.log_dir / "stats.json").read_text(encoding="utf-8"))

    @property
    def last(self) -> dict[str, Any]:
        """The statistics of the last epoch."""
        return self.stats[-1]

    @property
    def log(self) -> str:
        """What was logged."""
        return (self.log_dir / logger.LOG_FILE).read_text(encoding="utf-8")


def run_script(main: Callable[..., Any], directory: Path, *argv: Any, seed: int = 1) -> ScriptRun:
    """Call ``main`` with command line arguments in a directory, which is made if it is not there."""
    directory.mkdir(parents=True, exist_ok=True)
    before = Path.cwd()
    os.chdir(directory)
    fix_rng_seed(seed)
    # What runs the tests may be no file, such as a worker of pytest-xdist.
    as_script = mock.patch.object(sys.modules["__main__"], "__file__", main.__code__.co_filename, create=True)
    try:
        with as_script, tf.Graph().as_default():
            tf.set_random_seed(seed)
            result = main([str(argument) for argument in argv])
        return ScriptRun(Path(logger.get_logger_dir() or "."), result)
    finally:
        fix_rng_seed(None)
        logger.close_logger_dir()
        # As the end of a process does: what the script made is in cycles, and workers end with the flows.
        gc.collect()
        os.chdir(before)
