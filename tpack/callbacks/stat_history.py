"""What a statistic got since it was read last, what it was in the runs that this one resumes, and when it is better.

It is for callbacks that decide by the course of a statistic, and are triggered more or less often than it is reported.
"""

from __future__ import annotations

import re
from typing import Any

from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.json_writer import JSONWriter
from tpack.callbacks.monitors.table_writer import is_before_this_run
from tpack.errors import CallbackError, ConfigError
from tpack.types import Trainer
from tpack.utils import logger
from tpack.utils.validation import owner_name

_LARGER = (
    "acc accuracy auc auroc auprc f1 fscore precision recall sensitivity specificity map ap miou iou dice jaccard psnr "
    "ssim bleu rouge meteor cider reward return score correlation r2 mcc kappa ndcg mrr correct"
)
_SMALLER = (
    "loss error err cost perplexity ppl wer cer mse mae rmse mape nll xent brier fid lpips wrong incorrect regret "
    "divergence"
)
_KNOWN_WORDS = {"max": set(_LARGER.split()), "min": set(_SMALLER.split())}
_NEGATIONS = {"neg", "negative", "minus", "non", "not", "no", "inverse"}
_WORDS = {"min": "smaller", "max": "larger"}


class Direction:
    """Which values of a statistic are the better ones: the larger, or the smaller.

    Args:
        owner: the callback that decides by the statistic.
        name: the statistic. Names speak: an accuracy is better when it is larger, a loss when it is smaller.
        given: ``"min"`` or ``"max"`` where somebody says it; None to go by the name.
        way_out: how the owner is told, where the name does not say it.

    Attributes:
        mode: ``"min"`` or ``"max"``.
        sign: what makes a value of the statistic a number of which the smaller is the better: 1 or -1.

    Raises:
        ConfigError: The name does not say it and nobody else does.
    """

    def __init__(self, owner: object, name: str, given: str | None, way_out: str) -> None:
        self._owner = owner
        self._name = name
        self._guessed = mode_of(name)
        self._is_given = given is not None
        mode = self._guessed if given is None else given
        if mode is None:
            raise ConfigError(
                f"{owner_name(owner)} cannot tell from the name {name!r} whether less or more is better: {way_out}"
            )
        self.mode = mode
        self.sign = -1.0 if mode == "max" else 1.0

    def log(self) -> None:
        """Say which it is if the name said it, and warn if what was given is not what the name says."""
        if not self._is_given:
            logger.info(f"{self._owner} takes {self._name} to be better when it is {_WORDS[self.mode]}.")
        elif self._guessed not in (None, self.mode):
            logger.warning(
                f"{self._owner} takes {self._name} to be better when it is {_WORDS[self.mode]}, as it was told. By its "
                f"name it is better when it is {_WORDS[str(self._guessed)]}."
            )


def mode_of(name: str) -> str | None:
    """Return whether a statistic is better when it is smaller, ``"min"``, or ``"max"``; None if its name is not clear.

    The words of the name are looked at: ``val-error-top1`` is an error. A name with words of both kinds is not clear,
    nor is one that is negated.
    """
    words = _words(name)
    kinds = {mode for mode, known in _KNOWN_WORDS.items() if words & known}
    return kinds.pop() if len(kinds) == 1 and not words & _NEGATIONS else None


def _words(name: str) -> set[str]:
    """Return the words of a name in small letters, each also without the digits and the plural at its end."""
    parts = re.findall(r"[A-Za-z0-9]+", name)
    inner = [word for part in parts for word in re.findall(r"[A-Z]?[a-z]{2,}[0-9]*", part)]
    words = {word.lower() for word in (*parts, *inner)}
    words |= {word.rstrip("0123456789") for word in words}
    return words | {word.removesuffix("es") for word in words} | {word.removesuffix("s") for word in words}


class StatisticReader:
    """Tells what a statistic got since it was asked last.

    Args:
        reader: the callback that reads, which is set up before it reads.
        name: the statistic.
    """

    def __init__(self, reader: Callback, name: str) -> None:
        self._reader = reader
        self._name = name
        self._num_seen = 0
        self._has_warned = False

    def new_values(self) -> list[float]:
        """Return the values since the last call, oldest first; a statistic that was never reported is told once."""
        try:
            history = self._reader.trainer.monitors.get_history(self._name)
        except CallbackError as error:
            if not self._has_warned:
                logger.warning(f"{self._reader} has nothing to go by yet: {error}")
                self._has_warned = True
            return []
        new, self._num_seen = history[self._num_seen :], len(history)
        return new

    def tell_if_none_came(self) -> None:
        """Say at the end of training that the statistic was asked for and never reported."""
        if self._has_warned and not self._num_seen:
            logger.warning(f"{self._reader} has done nothing in this training: {self._name} was never reported.")


def former_values(trainer: Trainer, name: str, *, from_epoch: int = 0) -> list[float]:
    """Return the values of a statistic from before the point where this run starts, oldest first.

    Where this run starts with the end of an epoch, what was reported there is reported again and does not count.

    They are read from ``stats.json`` in the logger's directory. Without one there are none.

    Args:
        trainer: whose run it is, before its first step.
        name: the statistic.
        from_epoch: leave out what was reported in earlier epochs.
    """
    if logger.get_logger_dir() is None:
        return []
    try:
        entries = JSONWriter.load_existing_json() or []
    except CallbackError as error:
        logger.warning(f"The former values of '{name}' are not known: {error}")
        return []
    counting = [entry for entry in entries if name in entry and entry.get("epoch_num", 0) >= from_epoch]
    return [
        entry[name] for entry in counting if is_before_this_run(entry, trainer) and not _comes_again(entry, trainer)
    ]


def _comes_again(entry: dict[str, Any], trainer: Trainer) -> bool:
    """Tell whether an entry of stats.json is of the very end of an epoch with which a trainer's run starts."""
    is_at_end = trainer.starting_step >= trainer.steps_per_epoch
    return is_at_end and entry.get("global_step") == trainer.global_step
