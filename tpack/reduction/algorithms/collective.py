"""Reduce with TensorFlow's collective operations: the way that also works between processes.

Each tower runs its own operation, and the operations of one column find each other at run time by their keys. Between
CPU devices of one process the copy-based reducers are faster by a factor of two and more; between processes, this is
the one that moves 2(K-1)/K of the data per device.

Keys are integers: every set of devices has a group key, and every tensor that is reduced an instance key. TensorFlow
keeps both for as long as the session or the server lives and fails when a key comes again with other devices or another
shape, so keys are handed out once in a process. Processes that build the same graphs in the same order agree on them.
"""

import itertools
import threading
from collections.abc import Iterable, Sequence

from tpack.compat import collective_all_reduce
from tpack.errors import ConfigError
from tpack.reduction.algorithms.launch_order import check_launch, launch_in_order
from tpack.reduction.base import Reducer
from tpack.reduction.sums import on_device_of
from tpack.tower.devices import canonical_device
from tpack.tower.grads import Column, ReduceOp
from tpack.utils.validation import check_arguments

_HINTS = ("auto", "ring", "nccl")
_DTYPES = ("bfloat16", "float16", "float32", "float64", "int32", "int64")
_FIRST_KEY = 1_000_000
"""Far above the keys that ``tf.distribute`` starts from, so that both can be used in one server."""


class CollectiveKeys:
    """Hand out group and instance keys; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[frozenset[str], int] = {}
        self._instances = itertools.count(_FIRST_KEY)

    def group_key(self, devices: Iterable[str]) -> int:
        """Return the key of a set of devices, the same one each time."""
        with self._lock:
            return self._groups.setdefault(frozenset(devices), _FIRST_KEY + len(self._groups))

    def next_instance_key(self) -> int:
        """Return a key that was not handed out before."""
        with self._lock:
            return next(self._instances)


PROCESS_KEYS = CollectiveKeys()
"""The keys of this process. Collective operations are matched process-wide, hence the one instance."""


@check_arguments
class CollectiveReducer(Reducer):
    """Sum each gradient with one collective operation per tower, one gradient after the other, the last one first.

    Fetching any result runs the reduction of all towers, and of all gradients behind it in the list. Sparse
    gradients are concatenated on one device as by any other reducer.

    Args:
        hint: the implementation that TensorFlow should take: ``"auto"``, ``"ring"`` or ``"nccl"``.
        timeout_secs: how long an operation waits for its partners in other processes before the run fails; 0 waits
            for ever. TensorFlow keeps a sleeping thread for each operation until its time is over, so a run of 160
            gradients on 8 devices with a timeout of a minute needs more threads than a process can have: set it only
            with few, packed gradients. Inside one process nothing needs it: a tower that fails cancels the others'
            operations. The session cannot reduce any more after that, a new one can.
        keys: hands out the integers by which the operations find each other. Two that are used in one session must
            not hand out the same ones.

    Raises:
        ConfigError: An unknown hint or a negative timeout.

    Source:
        Mode ``"collective"`` of ``allreduce_grads`` in tensorpack's graph builder.
    """

    name = "collective"

    def __init__(self, hint: str = "auto", *, timeout_secs: float = 0, keys: CollectiveKeys = PROCESS_KEYS) -> None:
        if hint not in _HINTS:
            raise ConfigError(
                f"expected one of {', '.join(_HINTS)} as the hint for collective operations, got {hint!r}"
            )
        if timeout_secs < 0:
            raise ConfigError(f"expected a timeout of 0 seconds (none) or more, got {timeout_secs}")
        self._hint = hint
        self._timeout_secs = timeout_secs
        self._keys = keys

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse gradients that are not each on a device of its own, and dtypes that cannot be summed."""
        place = "a device of its own, named by tf.device,"
        check_launch(self, columns, place, _DTYPES, lambda own: "" not in own and _are_different(own))

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Sum one column after the other, each tower by its own operation."""
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
