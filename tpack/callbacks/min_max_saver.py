"""Keep the variables that gave the best value of a statistic."""

from __future__ import annotations

import glob
import math
import os

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.saver import claim_checkpoint_dir, make_saver
from tpack.callbacks.statistics import Direction, StatisticReader
from tpack.errors import CheckpointError, InputError
from tpack.tfutils.checkpoint import save_checkpoint
from tpack.utils import logger
from tpack.utils.argument_types import check_arguments
from tpack.utils.checks import check_text
from tpack.utils.dir_lock import DirectoryClaim
from tpack.utils.fs import atomic_write, remove_leftovers, why_not_written
from tpack.utils.serialize import seal_json, unseal_json


@check_arguments
class MinSaver(Callback):
    """Save a checkpoint whenever a statistic reaches a new minimum.

    The statistic is known by its name: this callback is triggered after all that report statistics, wherever it
    stands in the list, does nothing when the statistic got no new value, and saves the current variables itself,
    whether there is a `ModelSaver` and however often that one saves. NaN is never the best.

    The best value is kept beside the checkpoint in ``<filename>.best.json`` and in the training state of each
    checkpoint, so that a resumed run does not begin anew. What a check of numbers objects to is not saved.

    Args:
        monitor_stat: the statistic's name. If it speaks of what is better when it is larger, a warning says so.
        reverse: keep the maximum.
        filename: name of the checkpoint; ``min-<statistic>`` or ``max-<statistic>`` unless given.
        checkpoint_dir: where to; the logger's directory unless given.
    """

    reads_statistics = True
    saves_training = True

    def __init__(
        self,
        monitor_stat: str,
        reverse: bool = False,
        filename: str | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self._stat = check_text(self, "monitor_stat", monitor_stat)
        self._reverse = reverse
        self._direction = Direction(self, monitor_stat, "max" if reverse else "min", "")
        self._filename = filename or f"{'max' if reverse else 'min'}-{monitor_stat.replace('/', '-')}"
        self._given_dir = checkpoint_dir
        self._path = ""
        self._claim: DirectoryClaim
        self._saver: tf.train.Saver
        self._best: float | None = None
        self._statistic = StatisticReader(self, monitor_stat)

    def _setup_graph(self) -> None:
        self._direction.log()
        self._claim = claim_checkpoint_dir(self, self._given_dir)
        self._path = os.path.join(self._claim.directory, self._filename)
        _finish_or_remove(self._path)
        remove_leftovers(self._best_path)
        self._saver = make_saver(self, [tf.GraphKeys.GLOBAL_VARIABLES], max_to_keep=1)

    def _before_train(self) -> None:
        """Take over the best value of the run that is being resumed, if this run resumes one."""
        try:
            with open(self._best_path, encoding="utf-8") as file:
                former = unseal_json(file.read())
            if former["global_step"] <= self.global_step and os.path.exists(f"{self._path}.index"):
                self._best = float(former["value"])
        except FileNotFoundError:
            return
        except (OSError, InputError, ValueError, KeyError, TypeError) as error:
            logger.warning(f"{self._best_path} is damaged and ignored: {type(error).__name__}: {error}")

    def _state_to_save(self) -> float | None:
        return self._best

    def _load_saved_state(self, state: float) -> None:
        if os.path.exists(f"{self._path}.index"):
            self._best = float(state)

    def _after_train(self) -> None:
        self._claim.release()

    @property
    def _best_path(self) -> str:
        return f"{self._path}.best.json"

    def _trigger(self) -> None:
        new = self._statistic.new_values()
        if new and self._is_better(new[-1]):
            self._save(new[-1])

    def _is_better(self, value: float) -> bool:
        if math.isnan(value):
            return False
        if self._best is None:
            return True
        return value > self._best if self._reverse else value < self._best

    def _save(self, value: float) -> None:
        self.trainer.prepare_save()
        written = f"{self._path}.aside"
        save_checkpoint(self._saver, self.trainer.sess, written, write_state=False)
        try:
            _move_checkpoint(written, self._path)
            with atomic_write(self._best_path) as file:
                file.write(seal_json({"name": self._stat, "value": value, "global_step": self.global_step}))
        except OSError as error:
            raise CheckpointError(
                f"cannot write checkpoint {self._path}: {why_not_written(self._path, error)}"
            ) from error
        self._best = value
        logger.info(f"Model with {'maximum' if self._reverse else 'minimum'} '{self._stat}' ({value:.5g}) saved.")

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._stat})"


@check_arguments
class MaxSaver(MinSaver):
    """Save a checkpoint whenever a statistic reaches a new maximum; see `MinSaver`.

    Args:
        monitor_stat: the statistic's name.
        filename: name of the checkpoint; ``max-<statistic>`` unless given.
        checkpoint_dir: where to; the logger's directory unless given.
    """

    def __init__(
        self, monitor_stat: str, filename: str | None = None, checkpoint_dir: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(monitor_stat, reverse=True, filename=filename, checkpoint_dir=checkpoint_dir)


def _finish_or_remove(path: str) -> None:
    """Bring to its end what a killed process was doing to a checkpoint, or remove what it left of it."""
    aside = f"{path}.aside"
    if os.path.exists(f"{aside}.index"):
        # The index is written last: all was there, and some of it may have been moved.
        _move_checkpoint(aside, path)
    for left in glob.glob(f"{glob.escape(aside)}.*"):
        os.remove(left)


def _move_checkpoint(source: str, target: str) -> None:
    """Replace checkpoint ``target`` by ``source``.

    A checkpoint is several files, which can not be replaced at one instant. The index goes first and comes last:
    without it there is no checkpoint, so that whoever looks in between finds none rather than half of each.
    """
    index = f"{target}.index"
    if os.path.exists(index):
        os.remove(index)
    for path in glob.glob(f"{glob.escape(source)}.data-*"):
        os.replace(path, target + path[len(source) :])
    os.replace(f"{source}.index", index)
