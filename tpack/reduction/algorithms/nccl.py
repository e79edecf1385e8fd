"""Reduce with NVIDIA's NCCL, between GPUs of one machine only.

NCCL uses all links between GPUs at once. Calls in different orders on different GPUs hang without a message, and some
versions have returned wrong sums on some machines. So all calls have one order, this reducer is only used when named,
and `NcclReducer.self_check` compares a known sum before training.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.compat.operations import nccl_all_sum
from tpack.errors import ReductionError
from tpack.reduction.algorithms.launch_order import check_launch, launch_in_order
from tpack.reduction.base import Reducer
from tpack.reduction.sums import on_device, on_device_of
from tpack.tower.grads import Column, ReduceOp

SELF_CHECK_COLLECTION = "tpack_nccl_self_check"
_SELF_CHECK_SIZE = 4099
_DTYPES = ("float16", "float32", "float64", "int32", "int64")


class NcclReducer(Reducer):
    """A reducer with one NCCL call per gradient over the GPUs of the towers, the last gradient first.

    Creates:
        With every reduction, a few operations outside the training step, and one tensor in the graph collection
        ``tpack_nccl_self_check``.

    Source:
        Mode ``"nccl"`` of ``allreduce_grads`` in tensorpack's graph builder.
    """

    name = "nccl"

    def self_check(self, session: tf.Session) -> None:
        """Compare sums of known numbers on the GPUs of every reduction in the session's graph.

        Raises:
            ReductionError: A sum is wrong, or the graph has no reduction by NCCL.
        """
        checks = session.graph.get_collection(SELF_CHECK_COLLECTION)
        if not checks:
            raise ReductionError("self_check found nothing to check: the session's graph has no reduction by NCCL")
        for check in checks:
            wrong = [k for k, right in enumerate(session.run(check)) if not right]
            if wrong:
                towers = f"{wrong} of {check.shape[0]}"
                raise ReductionError(f"NCCL returned a wrong sum in the towers {towers}; use RoundRobinReducer")

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse gradients that share a GPU or are not on one, and dtypes that cannot be summed."""
        check_launch(self, columns, "a GPU of its own", _DTYPES, _are_different_gpus)

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Sum one column after the other, with one call each."""
        _add_self_check(columns[0])
        return launch_in_order(columns, nccl_all_sum, op.divisor(len(columns[0])))


def _add_self_check(column: Column) -> None:
    """Add operations that sum 1, 2, ..., K on the devices of ``column`` and compare each sum with the right one."""
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
