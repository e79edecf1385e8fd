"""Trainers made with a config, ``SyncMultiGPUTrainer(config).train()``."""

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tpack.legacy.table import say

# A module of a level above, which is loaded when there is a config.
_INTERFACE = "tpack.train.interface"


def make_with_config(
    make: Callable[..., Any], name: str, config: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Make a trainer with the number of towers of a config.

    Args:
        make: the trainer's class, or what stands for it.
        name: its name.
        config: a ``TrainConfig``.
        args: the arguments after the config.
        kwargs: the named arguments.

    Returns:
        The result of ``make``.
    """
    has_towers = "gpus" in inspect.signature(make).parameters
    say(f"{name}(config).train()", f"launch_train_with_config(config, {name}({'num_gpus' if has_towers else ''}))")
    towers = (getattr(config, "nr_tower", 1),) if has_towers else ()
    return make(*towers, *args, **{key: value for key, value in kwargs.items() if key != "gpus"})


def train_by_config(trainer: Any, config: Any) -> None:
    """Let a trainer's ``train()`` without arguments train as the config says."""
    trainer.train = functools.partial(_train, trainer, config)


def _train(trainer: Any, config: Any, *args: Any, **kwargs: Any) -> None:
    """Train as the config says; with arguments this is the trainer's own ``train``."""
    if args or kwargs:
        type(trainer).train(trainer, *args, **kwargs)
        return
    del trainer.train
    importlib.import_module(_INTERFACE).launch_train_with_config(config, trainer)
