"""Arguments that had other names, or that are said elsewhere today.

They are looked at only where Python refuses a call, so calls of today cost nothing.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tpack.older_names.table import say

Function = TypeVar("Function", bound=Callable[..., Any])

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


def takes_older_arguments(function: Function) -> Function:
    """Let a function whose arguments are not checked by their annotations be called with older names of them, too."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **with_todays_arguments(signature, function.__qualname__, args, kwargs))

    return call  # type: ignore[return-value]


def _same(value: Any) -> Any:
    return value


def point_of(arguments: Sequence[Any], num_inputs: int) -> Sequence[Any]:
    """Return the data point that a predictor of several inputs was called with: its arguments, or the only one.

    Args:
        arguments: those of the call.
        num_inputs: how many inputs the predictor has.
    """
    only = arguments[0] if len(arguments) == 1 < num_inputs else None
    if not isinstance(only, (list, tuple)) or len(only) != num_inputs:
        return arguments
    say("predictor(data_point)", "predictor(*data_point)")
    return only
