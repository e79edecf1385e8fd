"""Trainers made with a config, ``SyncMultiGPUTrainer(config).train()``."""

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tpack.legacy.table import say

# A module of a higher level, loaded when there is a config.
_INTERFACE = "tpack.train.interface"


def make_with_config(
    make: Callable[..., Any], name: str, config: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Make a trainer with the number of towers of a config, and return it.

    Args:
        make: the trainer's class, or a function in its place.
        name: its name.
        config: a ``TrainConfig``.
        args: the arguments after the config.
        kwargs: the named arguments.
    """
    has_towers = "gpus" in inspect.signature(make).parameters
    say(f"{name}(config).train()", f"launch_train_with_config(config, {name}({'num_gpus' if has_towers else ''}))")
    towers = (getattr(config, "nr_tower", 1),) if has_towers else ()
    return make(*towers, *args, **{key: value for key, value in kwargs.items() if key != "gpus"})


def train_by_config(trainer: Any, config: Any) -> None:
    """Make a trainer's ``train()`` without arguments train by the config."""
    trainer.train = functools.partial(_train, trainer, config)


def _train(trainer: Any, config: Any, *args: Any, **kwargs: Any) -> None:
    """Train by the config; with arguments, call the trainer's own ``train``."""
    if args or kwargs:
        type(trainer).train(trainer, *args, **kwargs)
        return
    del trainer.train
    importlib.import_module(_INTERFACE).launch_train_with_config(config, trainer)
