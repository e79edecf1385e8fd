"""Keep the checkpoint with the best value of a statistic, or the best few, and a list of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.saver import claim_checkpoint_dir, keep_apart, make_saver
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

    It is triggered after all callbacks that report, does nothing without a new value, and saves the present variables
    itself, with or without a `ModelSaver`. NaN is never the best, and values that a check of numbers rejects are not
    saved. The best value is kept in ``<filename>.best.json`` and in each checkpoint's training state, for resumed runs.

    With ``max_to_keep`` above 1 (``save_top_k`` in other libraries) the best few are kept, as ``<filename>-<global
    step>``, and a value is saved when better than the worst of them. `tpack.tfutils.checkpoint.resolve_checkpoint`
    resolves ``<filename>`` to the best.

    Args:
        monitor_stat: the statistic's name. A name that suggests the other direction is warned of.
        reverse: keep the maximum.
        filename: name of the checkpoint; ``min-<statistic>`` or ``max-<statistic>`` unless given.
        checkpoint_dir: the directory; the logger's unless given.
        max_to_keep: the number of checkpoints to keep.

    Raises:
        WrongTypeError: An argument has the wrong type.
        ConfigError: ``max_to_keep`` is not positive.
    """

    # Several workers compare what the chief saves.
    _chief_only = False
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
        self._direction = Direction(self, monitor_stat, "max" if reverse else "min")
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
        if not self.trainer.is_chief:
            return
        self._direction.log()
        self._claim = claim_checkpoint_dir(self, self._given_dir)
        self._path = os.path.join(self._claim.directory, self._filename)
        finish_or_remove(self._path, is_single=self._is_single)
        remove_leftovers(self._path + BEST_SUFFIX)
        # This class deletes checkpoints itself.
        self._saver = make_saver(self, [tf.GraphKeys.GLOBAL_VARIABLES], max_to_keep=0)

    def _before_train(self) -> None:
        if not self.trainer.is_chief:
            return
        keep_apart(self, self._given_dir, self._claim.directory)
        try:
            former = read_kept(self._path)
        except InputError as error:
            logger.warning(f"{self._path}{BEST_SUFFIX} is damaged and ignored: {error}")
            return
        for each in former:
            # A run that kept one checkpoint named it otherwise than a run that kept several.
            names = self._path, f"{self._path}-{each.global_step}"
            now, before = names if self._is_single else names[::-1]
            if os.path.exists(f"{before}.index") and not os.path.exists(f"{now}.index"):
                move_checkpoint(before, now)
        self._take_over([kept for kept in former if kept.global_step <= self.global_step])

    def _take_over(self, former: Iterable[Kept]) -> None:
        """Adopt a former run's checkpoints that still exist, up to ``max_to_keep``."""
        there = [kept for kept in former if os.path.exists(f"{self._prefix(kept.global_step)}.index")]
        self._kept = self._best_of(there)

    def _best_of(self, kept: Iterable[Kept]) -> list[Kept]:
        return sorted(kept, key=lambda each: self._direction.sign * each.value)[: self._max_to_keep]

    def _prefix(self, step: int) -> str:
        return self._path if self._is_single else f"{self._path}-{step}"

    def _state_to_save(self) -> list[list[float]] | None:
        return [list(kept) for kept in self._kept] or None

    def _load_saved_state(self, state: list[list[float]]) -> None:
        self._take_over(Kept(float(value), int(step)) for value, step in state)

    def _after_train(self) -> None:
        if self.trainer.is_chief:
            self._claim.release()
            self._statistic.warn_if_never_reported()

    @property
    def _is_single(self) -> bool:
        return self._max_to_keep == 1

    def _trigger(self) -> None:
        new = self._statistic.new_values() if self.trainer.is_chief else []
        is_best = bool(new) and self._is_better(new[-1])
        if self.trainer.agree_to_save(is_best) and is_best:
            self._save(new[-1])

    def _is_better(self, value: float) -> bool:
        sign, is_full = self._direction.sign, len(self._kept) == self._max_to_keep
        return not math.isnan(value) and not (is_full and sign * value >= sign * self._kept[-1].value)

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
        if self._is_single:
            logger.info(f"Model with {self._direction.mode}imum '{self._stat}' ({value:.5g}) saved.")
        else:
            logger.info(
                f"Model with '{self._stat}' {value:.5g}, number {kept.index(new) + 1} of the best, saved to {prefix}."
            )

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._stat})"


@check_arguments
class MaxSaver(MinSaver):
    """Save a checkpoint whenever a statistic reaches a new maximum; see `MinSaver`.

    Args:
        monitor_stat: the statistic's name.
        filename: name of the checkpoint; ``max-<statistic>`` unless given.
        checkpoint_dir: the directory; the logger's unless given.
        max_to_keep: the number of checkpoints to keep.
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
