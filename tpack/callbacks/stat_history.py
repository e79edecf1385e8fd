"""Read a statistic's values, including those of resumed runs, and decide what counts as an improvement."""

from __future__ import annotations

import re

from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.table_writer import JSONWriter, is_before_this_run
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
    """The better values of a statistic: the larger or the smaller.

    Args:
        owner: the callback that decides by the statistic.
        name: the statistic. Names tell: an accuracy is better when larger, a loss when smaller.
        given: ``"min"`` or ``"max"``; None to go by the name.

    Attributes:
        mode: ``"min"`` or ``"max"``.
        sign: 1 or -1; a value times it is better when smaller.

    Raises:
        ConfigError: Nothing is given and the name is not clear.
    """

    def __init__(self, owner: object, name: str, given: str | None) -> None:
        self._owner = owner
        self._name = name
        self._guessed = mode_of(name)
        self._is_given = given is not None
        mode = self._guessed if given is None else given
        if mode is None:
            reason = f"the name {name!r} does not tell whether less or more is better"
            raise ConfigError(f"{owner_name(owner)} got mode=None, and {reason}: expected 'min' or 'max'")
        self.mode = mode
        self.sign = -1.0 if mode == "max" else 1.0

    def log(self) -> None:
        """Log a direction that the name decided; warn if the given one contradicts the name."""
        if not self._is_given:
            logger.info(f"{self._owner} takes {self._name} to be better when it is {_WORDS[self.mode]}.")
        elif self._guessed not in (None, self.mode):
            logger.warning(
                f"{self._owner} takes {self._name} to be better when it is {_WORDS[self.mode]}, as it was told. By its "
                f"name it is better when it is {_WORDS[str(self._guessed)]}."
            )


def mode_of(name: str) -> str | None:
    """Return ``"min"`` or ``"max"`` by the words of a name; None for words of both kinds, or a negation."""
    parts = re.findall(r"[A-Za-z0-9]+", name)
    inner = [word for part in parts for word in re.findall(r"[A-Z]?[a-z]{2,}[0-9]*", part)]
    words = {word.lower() for word in (*parts, *inner)}
    # Each also without the digits and the plural at its end.
    words |= {word.rstrip("0123456789") for word in words}
    words |= {word.removesuffix("es") for word in words} | {word.removesuffix("s") for word in words}
    kinds = {mode for mode, known in _KNOWN_WORDS.items() if words & known}
    return kinds.pop() if len(kinds) == 1 and not words & _NEGATIONS else None


class StatisticReader:
    """Values of a statistic since the last read.

    Args:
        reader: the callback that reads; it must be set up first.
        name: the statistic.
    """

    def __init__(self, reader: Callback, name: str) -> None:
        self._reader = reader
        self._name = name
        self._num_seen = 0
        self._has_warned = False

    def new_values(self) -> list[float]:
        """Return the values since the last call, oldest first; warn once if there were never any."""
        try:
            history = self._reader.trainer.monitors.get_history(self._name)
        except CallbackError as error:
            if not self._has_warned:
                logger.warning(f"{self._reader} has nothing to go by yet: {error}")
                self._has_warned = True
            return []
        new, self._num_seen = history[self._num_seen :], len(history)
        return new

    def warn_if_never_reported(self) -> None:
        """Warn at the end of training if the statistic was read and never reported."""
        if self._has_warned and not self._num_seen:
            logger.warning(f"{self._reader} has done nothing in this training: {self._name} was never reported.")


def former_values(trainer: Trainer, name: str, *, from_epoch: int = 0) -> list[float]:
    """Return a statistic's values in ``stats.json`` from before this run, without an epoch's end to be repeated.

    Args:
        trainer: the run's trainer, before its first step.
        name: the statistic.
        from_epoch: leave out earlier epochs.
    """
    if logger.get_logger_dir() is None:
        return []
    try:
        entries = JSONWriter.load_existing_json() or []
    except CallbackError as error:
        logger.warning(f"The former values of '{name}' are not known: {error}")
        return []
    # The end of an epoch at which this run starts is reported again.
    repeated = trainer.global_step if trainer.starting_step >= trainer.steps_per_epoch else None
    former = [entry for entry in entries if name in entry and is_before_this_run(entry, trainer)]
    former = [entry for entry in former if repeated is None or entry.get("global_step") != repeated]
    return [entry[name] for entry in former if entry.get("epoch_num", 0) >= from_epoch]
