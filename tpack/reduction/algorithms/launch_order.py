"""Launch operations that block on each other across devices in one order shared by all devices.

A collective operation occupies its device until the same operation runs on all others. If devices start with different
tensors and have no thread left for another operation, they deadlock. Here each column starts after the previous one
ended on every device, so only one column can be waiting.

The order is from the last column to the first, about the order in which a backward pass produces gradients. The barrier
between two columns has a second use: every output of a column depends on it, so a run that fetches the result of one
tower alone still runs the operation on the other towers, without which it would not return.

A reducer that calls such algorithms several times for one list of gradients, for example for large and small ones,
joins their orders by `one_launch_order`.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextvars import ContextVar

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.sums import divide, on_device_of
from tpack.tower.grads import Column
from tpack.utils.validation import owner_name

_Launched = tuple[frozenset[str], tf.Operation]
"""The devices of a call of `launch_in_order`, and its last barrier."""

_launched_before: ContextVar[list[_Launched] | None] = ContextVar("launched_before", default=None)
"""The launches in the current block of `one_launch_order`; None outside of one."""


@contextlib.contextmanager
def one_launch_order() -> Iterator[None]:
    """Order each `launch_in_order` in the block after the earlier ones that use one of the same devices.

    Fetching a result of a later call then runs the earlier ones too. A nested block has no effect.
    """
    if _launched_before.get() is not None:
        yield
        return
    token = _launched_before.set([])
    try:
        yield
    finally:
        _launched_before.reset(token)


def check_launch(
    reducer: object, columns: Sequence[Column], place: str, dtypes: Collection[str], fits: Callable[[list[str]], bool]
) -> None:
    """Refuse columns on devices that do not fit, or of other dtypes, for one operation per device.

    Args:
        reducer: the reducer, for the message.
        columns: N columns of K tensors.
        place: the device that each tower needs, for the message.
        dtypes: names of the dtypes that can be summed.
        fits: tells whether the K devices of a column can be used.
    """
    owner = owner_name(reducer)
    for column in columns:
        devices, dtype = [tensor.device for tensor in column], column[0].dtype.base_dtype.name
        if not fits(devices):
            where = ", ".join(device or "(not placed)" for device in devices)
            raise ReductionError(f"{owner} got {column[0].name} on {where}: expected {place} for each tower")
        if dtype not in dtypes:
            raise ReductionError(f"{owner} got {column[0].name} of {dtype}: expected one of {', '.join(dtypes)}")


def launch_in_order(columns: Sequence[Column], launch: Callable[[Column], Column], divisor: int) -> list[Column]:
    """Call ``launch`` for every column so that its operations run column by column, the last column first.

    Args:
        columns: N columns of K tensors.
        launch: adds the operations of one column and returns their K sums, each on the device of its input.
        divisor: the divisor of each sum.
    """
    reduced: list[Column] = []
    devices = frozenset(tensor.device for column in columns for tensor in column)
    launched = _launched_before.get()
    launched = [] if launched is None else launched
    barrier = [last for others, last in launched if not devices.isdisjoint(others)]
    for column in reversed(columns):
        with tf.control_dependencies(barrier):
            sums = launch(column)
        with tf.control_dependencies(list(sums)), on_device_of(column[0]):
            barrier = [tf.no_op(name="barrier")]
        with tf.control_dependencies(barrier):
            reduced.append([_release(total, divisor) for total in sums])
    launched.extend((devices, last) for last in barrier)
    return reduced[::-1]


def _release(total: tf.Tensor, divisor: int) -> tf.Tensor:
    with on_device_of(total):
        return tf.identity(total) if divisor == 1 else divide(total, divisor)
