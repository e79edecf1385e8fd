"""Trainers that are given a config, ``SyncMultiGPUTrainer(config).train()``, and models whose cost is an attribute.

And what is called of trainers: ``set_tower_func()``.
"""

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from tpack.older_names.table import say

# A module of a level above, which is there when there is a config.
_INTERFACE = "tpack.train.interface"
Maker = TypeVar("Maker", bound=Callable[..., Any])


def takes_config(make: Maker) -> Maker:
    """Let a trainer's class, or a function that returns a trainer, be called with a ``TrainConfig``.

    Its ``train()`` without arguments then trains what the config says, on as many towers as ``config.nr_tower``.
    """
    target: Any = make
    if isinstance(make, type):
        target.__init__ = _taking_config(target.__init__, make.__name__, is_method=True)
        return make
    return _taking_config(target, target.__name__, is_method=False)  # type: ignore[return-value]


def _taking_config(function: Callable[..., Any], name: str, *, is_method: bool) -> Callable[..., Any]:
    """Return a function that replaces a config, the first argument, by the towers that it asks for."""
    has_towers = "gpus" in inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        own, rest = args[:is_method], args[is_method:]
        config = rest[0] if rest else kwargs.pop("config", None)
        if not _is_config(config):
            return function(*args, **kwargs)
        say(f"{name}(config).train()", f"launch_train_with_config(config, {name}({'num_gpus' if has_towers else ''}))")
        towers = (getattr(config, "nr_tower", 1),) if has_towers else ()
        made = function(*own, *towers, *rest[1:], **{key: value for key, value in kwargs.items() if key != "gpus"})
        trainer = own[0] if is_method else made
        trainer.train = functools.partial(_train, trainer, config)
        return made

    return call


def _is_config(value: object) -> bool:
    """Tell whether a value is a ``TrainConfig``, whose module is above this one."""
    return any(cls.__name__ == "TrainConfig" for cls in type(value).__mro__)


def _train(trainer: Any, config: Any, *args: Any, **kwargs: Any) -> None:
    """Train what the config says; with arguments this is the trainer's own ``train``."""
    if args or kwargs:
        type(trainer).train(trainer, *args, **kwargs)
        return
    del trainer.train
    importlib.import_module(_INTERFACE).launch_train_with_config(config, trainer)


def set_tower_func(trainer: Any, tower_func: Any) -> None:
    """Set the tower function of a ``TowerTrainer``, of whose class this is a method."""
    say("set_tower_func(f)", "tower_func = f")
    trainer.tower_func = tower_func


def with_cost_attribute(model: Any) -> Callable[..., Any]:
    """Return a model's ``build_graph``, which returns ``model.cost`` where the method sets that and returns nothing.

    Args:
        model: a ``ModelDesc``.
    """

    @functools.wraps(model.build_graph)
    def build_graph(*inputs: Any) -> Any:
        cost = model.build_graph(*inputs)
        if cost is None and getattr(model, "cost", None) is not None:
            say("self.cost = cost", "return cost, at the end of build_graph()")
            cost, model.cost = model.cost, None
        return cost

    return build_graph
