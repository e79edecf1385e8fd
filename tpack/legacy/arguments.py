"""Renamed arguments, and arguments of other objects.

They are looked up only for a call that Python would refuse, so present calls cost nothing.
"""

import inspect
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
"""The older and the present names of arguments."""


KEPT = {
    "nr_tower": "SyncMultiGPUTrainer(num_gpus), a trainer that knows its towers",
    "predict_tower": "predictors that know their towers, such as MultiTowerOfflinePredictor(config, towers)",
    "tower": "SyncMultiGPUTrainer([0, 1]), a trainer that knows its towers",
}
"""Former arguments of ``TrainConfig``, now the trainer's; they become attributes, for `trainers`."""


def with_todays_arguments(
    signature: inspect.Signature, owner: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Return the named arguments of an invalid call under their present names.

    Args:
        signature: the signature of the called function.
        owner: its qualified name.
        args: the positional arguments of the call.
        kwargs: its named arguments; unknown ones stay.
    """
    translated: dict[str, Any] = {}
    for name, value in kwargs.items():
        today = RENAMED.get(name, name)
        if name not in signature.parameters and today in signature.parameters:
            say(f"{owner.partition('.')[0]}({name}=)", f"{today}=")
            translated[today] = not value if name == "tfmode" else value
        elif name in KEPT and owner == "TrainConfig.__init__":
            say(f"TrainConfig({name}=)", KEPT[name])
            setattr(args[0], "nr_tower" if name == "tower" else name, value)
        else:
            translated[name] = value
    return translated
