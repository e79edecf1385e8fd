"""Arguments that had other names, or that are said elsewhere today.

They are looked up only for a call that Python would refuse, so calls of today cost nothing.
"""

import inspect
from collections.abc import Callable
from typing import Any

from tpack.legacy.table import say

RENAMED = {
    "inputs_desc": "input_signature",
    "keep_freq": "keep_checkpoint_every_n_hours",
    "keep_recent": "max_to_keep",
    "nr_prefetch": "num_prefetch",
    "nr_proc": "num_proc",
    "nr_thread": "num_thread",
    "step_per_epoch": "steps_per_epoch",
    "tfmode": "keras_mode",
}
"""The older name of an argument, and that of today."""

_VALUES: dict[str, Callable[[Any], Any]] = {"tfmode": lambda is_tensorflow: not is_tensorflow}

KEPT = {
    "nr_tower": "SyncMultiGPUTrainer(num_gpus), a trainer that knows its towers",
    "predict_tower": "predictors that know their towers, such as MultiTowerOfflinePredictor(config, towers)",
    "tower": "SyncMultiGPUTrainer([0, 1]), a trainer that knows its towers",
}
"""Arguments of ``TrainConfig`` that are the trainer's today; they become attributes, for `trainers`."""


def with_todays_arguments(
    signature: inspect.Signature, owner: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Return the named arguments of a call that cannot be made as it is, under the names of today.

    Args:
        signature: of what is called.
        owner: its qualified name.
        args: the other arguments of the call.
        kwargs: its named arguments; what is not known here is left as it is.
    """
    translated: dict[str, Any] = {}
    for name, value in kwargs.items():
        today = RENAMED.get(name, name)
        if name not in signature.parameters and today in signature.parameters:
            say(f"{owner.partition('.')[0]}({name}=)", f"{today}=")
            translated[today] = _VALUES.get(name, _same)(value)
        elif name in KEPT and owner == "TrainConfig.__init__":
            say(f"TrainConfig({name}=)", KEPT[name])
            setattr(args[0], "nr_tower" if name == "tower" else name, value)
        else:
            translated[name] = value
    return translated


def _same(value: Any) -> Any:
    return value
