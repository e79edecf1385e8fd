"""One optimizer for each mirror of the variables, all in the same state.

An optimizer keeps slots for each variable and may count its steps. Where variables are mirrored, so is that state:
every device has a clone of the optimizer, which sees the mirrors of its device only and makes its slots there. All
clones apply the same gradients, so their states stay equal, and what belongs together becomes one mirrored variable:
it is saved once, under the name that the user's own optimizer gave it, and restored on all devices.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow.compat.v1 as tf

from tpack.distribute.contexts import UpdateContext
from tpack.distribute.values import update_on_devices
from tpack.distribute.variables.distributed import replace_in_collections
from tpack.distribute.variables.mirrored import MirroredVariable
from tpack.tfutils.optimizer_clone import clone_optimizer
from tpack.tower.collections import SUMMARY_KEYS, freeze_collection
from tpack.tower.recorder import VariableRecorder, pair_variables

GradsAndVars = Sequence[tuple[Any, Any]]


class MirroredOptimizers:
    """The optimizers that apply gradients in place of the user's, by the devices that variables are mirrored on.

    They are remembered, because an optimizer that is used twice goes on with the same slots.
    """

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Any, dict[tuple[str, ...], Any]] = WeakKeyDictionary()

    def apply_gradients(self, optimizer: Any, grads_and_vars: GradsAndVars, name: str) -> list[Any]:
        """Apply reduced gradients, on every device those of the mirrors there.

        Args:
            optimizer: the user's. It works on the first device of the first variables; elsewhere there are clones.
            grads_and_vars: (gradient, variable) pairs. Those of plain variables are applied by one optimizer.
            name: the name of the operations.

        Returns:
            The update operations.

        Raises:
            TowerMismatchError: The optimizer makes other variables on one device than on another.
        """
        groups: dict[tuple[str, ...], list[tuple[Any, Any]]] = {}
        for grad, variable in grads_and_vars:
            devices = tuple(variable.devices) if isinstance(variable, MirroredVariable) else ()
            groups.setdefault(devices, []).append((grad, variable))
        updates: list[Any] = []
        for devices, pairs in groups.items():
            found = self._find(optimizer, devices)
            if devices:
                updates.extend(_apply_on_devices(found, pairs, name))
            else:
                # As an update, so that slots of plain variables are plain ones beside them.
                with UpdateContext(pairs[0][1].device):
                    updates.append(found.apply_gradients(pairs, name=name))
        return updates

    def _find(self, optimizer: Any, devices: tuple[str, ...]) -> Any:
        """Return the optimizer of each device, or that of variables that are not mirrored."""
        known = self._known.setdefault(optimizer, {})
        if devices not in known:
            own = clone_optimizer(optimizer) if known else optimizer
            clones = [clone_optimizer(optimizer) for _ in devices[1:]]
            known[devices] = dict(zip(devices, [own, *clones], strict=True)) if devices else own
        return known[devices]


def _apply_on_devices(optimizers: Mapping[str, Any], pairs: GradsAndVars, name: str) -> list[Any]:
    recorders = {device: VariableRecorder(f"the optimizer on {device}") for device in optimizers}
    updates: list[Any] = []

    def apply(device: str, own_pairs: GradsAndVars) -> None:
        number = len(updates)
        with ExitStack() as scopes:
            # The first one's counters are called as if it were alone.
            scopes.enter_context(tf.name_scope(None))
            if number > 0:
                scopes.enter_context(tf.name_scope(f"replica_{number}"))
                # They would say the same on every device.
                scopes.enter_context(freeze_collection(SUMMARY_KEYS))
            scopes.enter_context(recorders[device].scope())
            updates.append(optimizers[device].apply_gradients(own_pairs, name=name))

    update_on_devices(apply, {device: (device,) for device in optimizers}, (list(pairs),), {})
    _mirror(recorders)
    return updates


def _mirror(recorders: Mapping[str, VariableRecorder]) -> None:
    """Make one mirrored variable of the n-th variables that were created on all devices."""
    main, *others = recorders.values()
    copies = [[copy for _, copy in pair_variables(main, other)] for other in others]
    for mirrors in zip(main.variables, *copies, strict=True):
        variable = MirroredVariable(dict(zip(recorders, mirrors, strict=True)), tf.VariableAggregation.NONE)
        replace_in_collections(variable)
