"""The towers that a strategy builds: they share its variables, and each updates its own part of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat import watch_operations
from tpack.distribute.change_check import refuse_lone_change
from tpack.distribute.meeting import MeetingTowerContext, Place
from tpack.distribute.regroup import regroup, select_device
from tpack.tower.collections import TowerCollections
from tpack.tower.context import TrainTowerContext, current_tower_context
from tpack.tower.names import join_scope, tower_name
from tpack.tower.recorder import VariableRecorder
from tpack.tower.rendezvous import call_in_towers


class StrategyTower(TrainTowerContext):
    """One of K towers of a strategy.

    The first tower makes the variables, each on all devices, and the others take the same ones. Names of the first
    tower have no prefix. Update operations are kept from every tower, since each updates its own part of a variable.

    Args:
        index: which of the towers this is.
        total: K.
        device: where it is built.
        main: the first tower, for the others.

    Source:
        The towers of the mirrored strategy that the seed ``distribute`` describes.
    """

    def __init__(self, index: int, total: int, device: Any, main: "StrategyTower | None" = None) -> None:
        name = join_scope(tf.get_default_graph().get_name_scope(), tower_name(index)) if index > 0 else ""
        super().__init__(name, index=index, total=total, device=device, has_own_variables=False, reuse=main is not None)
        self.collections = TowerCollections(
            is_training=True, has_own_variables=False, is_main=index == 0, keeps_updates=True
        )
        if main is not None:
            self.recorder = VariableRecorder(repr(self), takes_from=main.recorder)
        # In every tower, since each has its part of them.
        self.updates_variables = True


def call_in_strategy_towers(
    strategy: Any, devices: Sequence[str], fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call a function in each tower of a strategy.

    Args:
        strategy: the strategy, whose cross-tower context is current.
        devices: the devices of the K towers.
        fn: builds one tower.
        args: its arguments; of values of several devices each tower gets its own.
        kwargs: more of them.

    Returns:
        What `regroup` makes of the K results.

    Raises:
        StrategyError: A value of several devices has none for a tower, or one of several towers changes a variable by
            itself, as optimizers do.
        TowerMismatchError: The towers differ in how often or for what they meet, in variables or in what they return.
    """
    main = StrategyTower(0, len(devices), devices[0])
    others = [StrategyTower(k, len(devices), device, main) for k, device in enumerate(devices[1:], start=1)]
    places: dict[int, Place] = {}
    for tower, device in zip((main, *others), devices, strict=True):
        MeetingTowerContext(strategy, tower, places, device=device)

    def build() -> Any:
        device = devices[current_tower_context().index]
        own_args, own_kwargs = select_device(device, (tuple(args), dict(kwargs)))
        with watch_operations(refuse_lone_change) if len(devices) > 1 else nullcontext():
            return fn(*own_args, **own_kwargs)

    results = call_in_towers([main, *others], build)
    return regroup(dict(zip(devices, results, strict=True)))
