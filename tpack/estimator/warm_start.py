"""Begin training with values of another model's checkpoint."""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tfutils.checkpoint import resolve_checkpoint
from tpack.utils import logger


class WarmStartSettings(NamedTuple):
    """Which variables begin with values of which checkpoint.

    Attributes:
        ckpt_to_initialize_from: a checkpoint, or a directory of them.
        vars_to_warm_start: a regular expression for names of trainable variables, a list of such for any variables, or
            None for those alone that are renamed.
        var_name_to_vocab_info: name to ``tf.train.VocabInfo``, for embeddings whose vocabulary has changed.
        var_name_to_prev_var_name: name to the name in the checkpoint, for variables that have another there.
    """

    ckpt_to_initialize_from: str
    vars_to_warm_start: Any = ".*"
    var_name_to_vocab_info: Any = None
    var_name_to_prev_var_name: Any = None


def make_warm_start_settings(warm_start_from: Any) -> WarmStartSettings | None:
    """Return the settings for what people give.

    Args:
        warm_start_from: settings, the path of a checkpoint, from which all trainable variables begin, or None.

    Raises:
        ConfigError: It is something else.
    """
    if warm_start_from is None or isinstance(warm_start_from, WarmStartSettings):
        return warm_start_from
    if isinstance(warm_start_from, str):
        return WarmStartSettings(warm_start_from)
    raise ConfigError(f"warm_start_from must be a path or WarmStartSettings, got {warm_start_from!r}")


def warm_start(settings: WarmStartSettings) -> None:
    """Change the initialisers of the current graph's variables to read a checkpoint.

    Args:
        settings: which variables and which checkpoint.

    Raises:
        CheckpointError: There is no such checkpoint.
    """
    path = resolve_checkpoint(settings.ckpt_to_initialize_from)
    logger.info(f"The model begins with values from {path}.")
    tf.train.warm_start(path, *settings[1:])
