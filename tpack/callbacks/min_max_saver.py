"""Keep the variables that gave the best value of a statistic, or the best few.

What is kept is written down in a small file beside the checkpoints. A checkpoint counts when it stands there, and is
complete before it does; so a run that is killed at any instant has the best ones of before or those of now.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.saver import claim_checkpoint_dir, make_saver
from tpack.callbacks.stat_history import Direction, StatisticReader
from tpack.errors import CheckpointError, InputError
from tpack.tfutils.checkpoint import save_checkpoint
from tpack.tfutils.checkpoints.best import (
    BEST_SUFFIX,
    Kept,
    finish_or_remove,
    move_checkpoint,
    read_kept,
    remove_others,
    write_kept,
)
from tpack.utils import logger
from tpack.utils.dir_lock import DirectoryClaim
from tpack.utils.fs import remove_leftovers, why_not_written
from tpack.utils.validation import check_arguments, check_count, check_text


@check_arguments
class MinSaver(Callback):
    """Save a checkpoint whenever a statistic reaches a new minimum.

    The statistic is known by its name: this callback is triggered after all that report statistics, wherever it
    stands in the list, does nothing when the statistic got no new value, and saves the current variables itself,
    whether there is a `ModelSaver` and however often that one saves. NaN is never the best.

    The best value is kept beside the checkpoint in ``<filename>.best.json`` and in the training state of each
    checkpoint, so that a resumed run does not begin anew. What a check of numbers objects to is not saved.

    With ``max_to_keep`` above 1 the best so many are kept, each as ``<filename>-<global step>``, and a value is saved
    when it is better than the worst of them. `tpack.tfutils.checkpoint.resolve_checkpoint`, and what loads checkpoints
    by it, takes ``<filename>`` for the best. Other libraries say ``save_top_k`` for it.

    Args:
        monitor_stat: the statistic's name. If it speaks of what is better when it is larger, a warning says so.
        reverse: keep the maximum.
        filename: name of the checkpoint; ``min-<statistic>`` or ``max-<statistic>`` unless given.
        checkpoint_dir: where to; the logger's directory unless given.
        max_to_keep: how many to keep; the best stay.

    Raises:
        WrongTypeError: An argument is no such thing.
        ConfigError: ``max_to_keep`` is not positive.
    """

    reads_statistics = True
    saves_training = True

    def __init__(
        self,
        monitor_stat: str,
        reverse: bool = False,
        filename: str | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        *,
        max_to_keep: int = 1,
    ) -> None:
        self._stat = check_text(self, "monitor_stat", monitor_stat)
        self._reverse = reverse
        self._direction = Direction(self, monitor_stat, "max" if reverse else "min", "")
        self._filename = filename or f"{'max' if reverse else 'min'}-{monitor_stat.replace('/', '-')}"
        self._given_dir = checkpoint_dir
        self._path = ""
        self._claim: DirectoryClaim
        self._saver: tf.train.Saver
        self._max_to_keep = check_count(self, "max_to_keep", max_to_keep)
        # The best first.
        self._kept: list[Kept] = []
        self._statistic = StatisticReader(self, monitor_stat)

    def _setup_graph(self) -> None:
        self._direction.log()
        self._claim = claim_checkpoint_dir(self, self._given_dir)
        self._path = os.path.join(self._claim.directory, self._filename)
        finish_or_remove(self._path, is_single=self._is_single)
        remove_leftovers(self._path + BEST_SUFFIX)
        # It is told by this class what to delete.
        self._saver = make_saver(self, [tf.GraphKeys.GLOBAL_VARIABLES], max_to_keep=0)

    def _before_train(self) -> None:
        """Take over the best values of the run that is being resumed, if this run resumes one."""
        try:
            former = read_kept(self._path)
        except InputError as error:
            logger.warning(f"{self._path}{BEST_SUFFIX} is damaged and ignored: {error}")
            return
        for each in former:
            self._rename_former(each.global_step)
        self._take_over([kept for kept in former if kept.global_step <= self.global_step])

    def _rename_former(self, step: int) -> None:
        """Let the checkpoint of a run that kept one, or several, have the name that it has in this run."""
        single, numbered, index = self._path, f"{self._path}-{step}", ".index"
        now, former = (single, numbered) if self._is_single else (numbered, single)
        if os.path.exists(former + index) and not os.path.exists(now + index):
            move_checkpoint(former, now)

    def _take_over(self, former: Iterable[Kept]) -> None:
        """Count what a former run kept, as far as it is there and as many as this one keeps."""
        there = [kept for kept in former if os.path.exists(f"{self._prefix(kept.global_step)}.index")]
        self._kept = self._best_of(there)

    def _best_of(self, kept: Iterable[Kept]) -> list[Kept]:
        sign = -1 if self._reverse else 1
        return sorted(kept, key=lambda each: sign * each.value)[: self._max_to_keep]

    def _prefix(self, step: int) -> str:
        return self._path if self._is_single else f"{self._path}-{step}"

    def _state_to_save(self) -> list[list[float]] | None:
        return [list(kept) for kept in self._kept] or None

    def _load_saved_state(self, state: list[list[float]]) -> None:
        self._take_over(Kept(float(value), int(step)) for value, step in state)

    def _after_train(self) -> None:
        self._claim.release()
        self._statistic.tell_if_none_came()

    @property
    def _is_single(self) -> bool:
        return self._max_to_keep == 1

    def _trigger(self) -> None:
        new = self._statistic.new_values()
        if new and self._is_better(new[-1]):
            self._save(new[-1])

    def _is_better(self, value: float) -> bool:
        if math.isnan(value):
            return False
        if len(self._kept) < self._max_to_keep:
            return True
        worst = self._kept[-1].value
        return value > worst if self._reverse else value < worst

    def _save(self, value: float) -> None:
        self.trainer.prepare_save()
        prefix, new = self._prefix(self.global_step), Kept(value, self.global_step)
        written = f"{self._path}.aside"
        save_checkpoint(self._saver, self.trainer.sess, written, write_state=False)
        kept = self._best_of([*(each for each in self._kept if each.global_step != new.global_step), new])
        try:
            move_checkpoint(written, prefix)
            write_kept(self._path, self._stat, kept, is_single=self._is_single)
            if not self._is_single:
                remove_others(self._path, {each.global_step for each in kept})
        except OSError as error:
            raise CheckpointError(f"cannot write checkpoint {prefix}: {why_not_written(prefix, error)}") from error
        self._kept = kept
        self._log(value, prefix)

    def _log(self, value: float, prefix: str) -> None:
        if self._is_single:
            logger.info(f"Model with {'maximum' if self._reverse else 'minimum'} '{self._stat}' ({value:.5g}) saved.")
        else:
            place = [each.global_step for each in self._kept].index(self.global_step) + 1
            logger.info(f"Model with '{self._stat}' {value:.5g}, number {place} of the best, saved to {prefix}.")

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._stat})"


@check_arguments
class MaxSaver(MinSaver):
    """Save a checkpoint whenever a statistic reaches a new maximum; see `MinSaver`.

    Args:
        monitor_stat: the statistic's name.
        filename: name of the checkpoint; ``max-<statistic>`` unless given.
        checkpoint_dir: where to; the logger's directory unless given.
        max_to_keep: how many to keep; the best stay.
    """

    def __init__(
        self,
        monitor_stat: str,
        filename: str | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        *,
        max_to_keep: int = 1,
    ) -> None:
        super().__init__(monitor_stat, True, filename, checkpoint_dir, max_to_keep=max_to_keep)
