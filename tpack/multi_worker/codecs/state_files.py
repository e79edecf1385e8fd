"""Files with the state of an exchange that belongs to one worker, one for each worker and checkpoint.

A checkpoint is that of one machine and has none of this state, so it loads into any trainer. Each worker writes its own
into its own log directory when a checkpoint is saved, and reads it when training goes on from that checkpoint, with as
many workers as before. A file holds checksums of the weights that it belongs to. If one worker lacks its file, all
begin without a state, and the log says so: some of it, such as a factor of `PowerSGD`, must be equal in all workers.
"""

import json
import os
import re
import zipfile
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import LONG_WAIT_SECS, Callback
from tpack.errors import CheckpointError
from tpack.multi_worker.cluster.consistency import checksum
from tpack.multi_worker.cluster.peers import Peers
from tpack.multi_worker.codecs.rank_state import rank_variables_here
from tpack.tfutils.graph_lookup import get_global_step_value
from tpack.utils import logger
from tpack.utils.fs import atomic_write, why_not_written
from tpack.utils.logger import log_once

_NAME = "exchange_state-{step}.npz"
_PATTERN = re.compile(r"exchange_state-(\d+)\.npz")
# Also of one that is being written.
_CHECKPOINT = re.compile(r"model-(\d+)[._].*")
_NUM_KEPT = 4
"""The newest files are kept in any case: their checkpoints may be in memory, or not yet written by a thread."""


class RankStateFiles(Callback):
    """Save and restore this worker's state of the exchange, beside the checkpoints.

    With each new file, and after each epoch, older ones are removed whose checkpoints are gone.

    Args:
        peers: the workers.
    """

    _chief_only = False

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._variables: list[tf.Variable] = []
        self._trained: list[tf.Variable] = []

    def _setup_graph(self) -> None:
        self._variables = rank_variables_here()
        self._trained = list(tf.trainable_variables())

    def _after_epoch(self) -> None:
        if self._variables:
            self._remove_old()

    def write(self) -> None:
        """Write the state of the current step; without a log directory, say that it is not saved.

        Raises:
            CheckpointError: It cannot be written.
        """
        if not self._variables:
            return
        directory = logger.get_logger_dir()
        if directory is None:
            log_once("The state of the exchange between workers is not saved: there is no log directory.")
        else:
            self._write_to(os.path.join(directory, _NAME.format(step=self.global_step)))
        # A worker alone may be interrupted, and ends without the others.
        if not self.trainer.interrupted:
            self._remove_old()

    def _write_to(self, path: str) -> None:
        values = self.trainer.sess.run(self._variables)
        try:
            with atomic_write(path, "wb") as file:
                # By position, and so named arr_0 and so on.
                np.savez(file, np.array(json.dumps(self._header())), *values)
        except OSError as error:
            raise CheckpointError(
                f"cannot write the state of the exchange between workers: {why_not_written(path, error)}"
            ) from error

    def _remove_old(self) -> None:
        """Remove files of this worker whose checkpoints are gone; all workers call it."""
        directory = logger.get_logger_dir()
        saved = [] if directory is None else _steps_in(directory, _CHECKPOINT)
        kept = self._peers.broadcast("the steps of checkpoints", saved, timeout_secs=LONG_WAIT_SECS)
        if directory is not None:
            for step in _steps_in(directory, _PATTERN)[:-_NUM_KEPT]:
                if step not in kept:
                    os.remove(os.path.join(directory, _NAME.format(step=step)))

    def load(self) -> None:
        """Restore the state of the current step if each worker has it; all workers call it, with a session."""
        if not self._variables:
            return
        with self.trainer.sess.as_default():
            step = get_global_step_value()
        if step == 0:
            return
        values, reason = self._read(step)
        reasons = self._peers.gather("the state of the exchange", reason)
        lacking = [f"worker {rank} {why}" for rank, why in enumerate(reasons) if why]
        if not lacking:
            for variable, value in zip(self._variables, values, strict=True):
                variable.load(value, self.trainer.sess)
        elif self._peers.rank == 0:
            logger.warning(f"The state of the exchange between workers starts over: {'; '.join(lacking)}.")

    def _read(self, step: int) -> tuple[list[np.ndarray], str]:
        """Return the values of this worker's file; or none, and why."""
        directory = logger.get_logger_dir()
        if directory is None:
            return [], "has no log directory"
        path = os.path.join(directory, _NAME.format(step=step))
        try:
            with np.load(path, allow_pickle=False) as file:
                found, expected = json.loads(str(file["arr_0"])), self._header()
                other = next((name for name in expected if found.get(name) != expected[name]), None)
                if other is not None:
                    return [], f"has a file of other {other}, {path}"
                return [file[f"arr_{number + 1}"] for number in range(len(self._variables))], ""
        except FileNotFoundError:
            return [], f"has no file {path}"
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            return [], f"cannot read {path}: {error}"

    def _header(self) -> dict[str, Any]:
        weights = self.trainer.sess.run(self._trained)
        return {
            "workers": [self._peers.rank, self._peers.size],
            "variables": [[v.op.name, v.dtype.base_dtype.name, v.shape.as_list()] for v in self._variables],
            "weights": {v.op.name: checksum(value) for v, value in zip(self._trained, weights, strict=True)},
        }


def _steps_in(directory: str, pattern: re.Pattern[str]) -> list[int]:
    """Return the steps of the files of one kind in a directory, in order."""
    return sorted({int(match[1]) for name in os.listdir(directory) if (match := pattern.fullmatch(name))})
