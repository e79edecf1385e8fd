"""Reduce with NVIDIA's NCCL: between GPUs of one machine only.

NCCL uses all links between GPUs at once. Calls that are issued in different orders on different GPUs hang without a
message, and some versions have returned wrong sums on some machines. So all calls are made in one order, this reducer
is never chosen unless it is asked for by name, and `NcclReducer.self_check` compares a known sum before training
starts.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.compat import nccl_all_sum
from tpack.errors import ReductionError
from tpack.reduction.algorithms.launch_order import check_launch, launch_in_order
from tpack.reduction.base import Reducer
from tpack.reduction.sums import on_device, on_device_of
from tpack.tower.grads import Column, ReduceOp

SELF_CHECK_COLLECTION = "tpack_nccl_self_check"
_SELF_CHECK_SIZE = 4099
_DTYPES = ("float16", "float32", "float64", "int32", "int64")


class NcclReducer(Reducer):
    """Sum each gradient with one NCCL call over the GPUs of the towers, one gradient after the other, the last first.

    Creates:
        With every reduction, a few operations that no training step runs, and one tensor in the graph collection
        ``tpack_nccl_self_check``.

    Source:
        Mode ``"nccl"`` of ``allreduce_grads`` in tensorpack's graph builder.
    """

    name = "nccl"

    def self_check(self, session: tf.Session) -> None:
        """Sum known numbers on the GPUs of every reduction in the session's graph and compare.

        Raises:
            ReductionError: A sum is wrong, or the graph has no reduction by NCCL.
        """
        checks = session.graph.get_collection(SELF_CHECK_COLLECTION)
        if not checks:
            raise ReductionError("there is nothing to check: NCCL reduces nothing in the graph of this session")
        for check in checks:
            wrong = [k for k, right in enumerate(session.run(check)) if not right]
            if wrong:
                raise ReductionError(
                    f"NCCL returned a wrong sum in the towers {wrong} of {check.shape[0]}: use another reducer, such "
                    "as RoundRobinReducer"
                )

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse gradients that are not each on a GPU of its own, and dtypes that cannot be summed."""
        check_launch(self, columns, "a GPU of its own", _DTYPES, _are_different_gpus)

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Sum one column after the other, each by one call."""
        _add_self_check(columns[0])
        return launch_in_order(columns, nccl_all_sum, op.divisor(len(columns[0])))


def _add_self_check(column: Column) -> None:
    """Add operations that sum 1, 2, ..., K on the devices of ``column`` and tell for each whether the sum is right."""
    with tf.name_scope("self_check"):
        numbers = []
        for k, tensor in enumerate(column, start=1):
            with on_device_of(tensor):
                numbers.append(tf.fill([_SELF_CHECK_SIZE], float(k)))
        right = []
        for total, tensor in zip(nccl_all_sum(numbers), column, strict=True):
            with on_device_of(tensor):
                right.append(tf.reduce_all(tf.equal(total, sum(range(1, len(column) + 1)))))
        with on_device("/device:CPU:0"):
            tf.add_to_collection(SELF_CHECK_COLLECTION, tf.stack(right))


def _are_different_gpus(devices: Sequence[str]) -> bool:
    kinds = {tf.DeviceSpec.from_string(device).device_type for device in devices}
    return kinds == {"GPU"} and len(set(devices)) == len(devices)
