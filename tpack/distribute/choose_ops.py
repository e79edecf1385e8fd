"""Choose cross-tower operations for devices."""

from collections.abc import Sequence
from typing import Any

from tpack.distribute.destinations import get_devices_from
from tpack.distribute.reducer_ops import ReducerCrossTowerOps
from tpack.reduction.base import Reducer
from tpack.reduction.choose import by_kind
from tpack.utils import logger


def choose_the_best(devices: Sequence[str], session_config: Any = None) -> ReducerCrossTowerOps:
    """Return the cross-tower operations that suit some devices, and log why.

    The function of the same name in `tpack.reduction` returns the reducer and the reason; this one makes what a
    strategy takes of it. Values that are on other devices than these are reduced by what suits the kind of theirs.

    Args:
        devices: the devices of the strategy; names of GPUs become logical CPU devices on a machine without GPUs.
        session_config: the ``ConfigProto`` of the session that will run, or None.

    Returns:
        Operations on the reducer that `tpack.reduction.choose_the_best` returns.

    Shapes:
        None apply.

    Raises:
        ReductionError: There is no device, or one twice.
        DeviceError: A GPU that the machine, having GPUs, does not have.

    Source:
        The function of this name in the seed's ``cross_tower_ops``, which takes NCCL unchecked.
    """
    choice = by_kind.choose_the_best(devices, session_config)
    logger.info(f"Values of {len(devices)} device(s) are reduced by {choice.reducer.name}: {choice.reason}.")
    return _ChosenOps(choice.reducer, devices)


class _ChosenOps(ReducerCrossTowerOps):
    """Reduces with a reducer that was chosen for some devices, and may not serve others."""

    def __init__(self, reducer: Reducer, devices: Sequence[str]) -> None:
        super().__init__(reducer)
        self._chosen_for = set(get_devices_from(list(devices)))

    def _reducer_for(self, devices: Sequence[str]) -> Reducer:
        return self._reducer if set(devices) == self._chosen_for else by_kind.choose_by_kind(devices).reducer
