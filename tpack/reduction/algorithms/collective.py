"""Reduce with TensorFlow's collective operations, which also work between processes.

Each tower runs its own operation; the operations of one column are matched at run time by their keys. Between CPU
devices of one process the copy-based reducers are at least twice as fast; between processes, collectives move 2(K-1)/K
of the data per device.

Keys are integers: a group key per set of devices, and an instance key per reduced tensor. TensorFlow keeps both for the
life of the session or server and fails when a key returns with other devices or another shape, so a process never
repeats one. Processes that build the same graphs in the same order agree on them.
"""

import itertools
import threading
from collections.abc import Iterable, Sequence

from tpack.compat.operations import collective_all_reduce
from tpack.reduction.algorithms.launch_order import check_launch, launch_in_order
from tpack.reduction.base import Reducer
from tpack.reduction.sums import on_device_of
from tpack.tower.devices import canonical_device
from tpack.tower.grads import Column, ReduceOp
from tpack.utils.validation import check_arguments, check_choice, check_number

_HINTS = ("auto", "ring", "nccl")
_DTYPES = ("bfloat16", "float16", "float32", "float64", "int32", "int64")
_FIRST_KEY = 1_000_000
"""Far above the first keys of ``tf.distribute``, so that both can be used in one server."""


class CollectiveKeys:
    """A thread-safe source of group and instance keys."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[frozenset[str], int] = {}
        self._instances = itertools.count(_FIRST_KEY)

    def group_key(self, devices: Iterable[str]) -> int:
        """Return the key of a set of devices, always the same."""
        with self._lock:
            return self._groups.setdefault(frozenset(devices), _FIRST_KEY + len(self._groups))

    def next_instance_key(self) -> int:
        """Return a new key."""
        with self._lock:
            return next(self._instances)


PROCESS_KEYS = CollectiveKeys()
"""The keys of this process, in which collective operations are matched process-wide."""


@check_arguments
class CollectiveReducer(Reducer):
    """A reducer with one collective operation per tower and gradient, one gradient after the other, the last first.

    Fetching any result runs the reduction of all towers, and of all gradients behind it in the list. Sparse gradients
    are concatenated on one device, as in other reducers.

    Args:
        hint: the implementation for TensorFlow to take: ``"auto"``, ``"ring"`` or ``"nccl"``.
        timeout_secs: seconds to wait for partners in other processes before the run fails; 0 for no limit. TensorFlow
            keeps a sleeping thread per operation until its timeout, so a run of 160 gradients on 8 devices with a
            timeout of a minute exceeds the threads of a process: set it only with few, packed gradients. Inside one
            process it is not needed: a tower that fails cancels the others' operations. After that, the session cannot
            reduce any more; a new one can.
        keys: the source of keys. Two that are used in one session must not return the same ones.

    Raises:
        ConfigError: An unknown hint or a negative timeout.

    Source:
        Mode ``"collective"`` of ``allreduce_grads`` in tensorpack's graph builder.
    """

    name = "collective"

    def __init__(self, hint: str = "auto", *, timeout_secs: float = 0, keys: CollectiveKeys = PROCESS_KEYS) -> None:
        self._hint = check_choice(self, "hint", hint, _HINTS)
        self._timeout_secs = check_number(self, "timeout_secs", timeout_secs, low=0)
        self._keys = keys

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse gradients that share a device, and dtypes that cannot be summed."""
        place = "a device of its own, named by tf.device,"
        check_launch(self, columns, place, _DTYPES, lambda own: "" not in own and _are_different(own))

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Sum one column after the other, with one operation per tower."""
        return launch_in_order(columns, self._launch, op.divisor(len(columns[0])))

    def _launch(self, column: Column) -> Column:
        group_key = self._keys.group_key(canonical_device(tensor.device) for tensor in column)
        instance_key = self._keys.next_instance_key()
        sums = []
        for tensor in column:
            with on_device_of(tensor):
                total = collective_all_reduce(
                    tensor,
                    group_size=len(column),
                    group_key=group_key,
                    instance_key=instance_key,
                    hint=self._hint,
                    timeout_secs=self._timeout_secs,
                )
            sums.append(total)
        return sums


def _are_different(devices: Sequence[str]) -> bool:
    return len(set(map(canonical_device, devices))) == len(devices)
