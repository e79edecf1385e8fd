"""Workers whose data end early: they join the steps of the others with gradients of weight 0 until all have ended.

`UnevenData` gives each data point a weight: 1, or 0 for a repeated one that only keeps the step going. Each tower sets
gradients of weight 0 to zero, the weights are added up over all towers of all workers with the gradients, and the mean
is over those that had data. So a step equals one process with the batches that are left.

Source:
    Horovod's and PyTorch's ``join``, which divide by all workers, or by those that are left if asked to.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import LONG_WAIT_SECS, Callback
from tpack.dataflow.base import DataFlow, ProxyDataFlow, flows_in, length_or_none
from tpack.dataflow.iterator_state import Passes, StateReader, freeze_points, make_state
from tpack.errors import ClusterError, ConfigError, DataExhaustedError, DataPointError
from tpack.input_source.base import InputSource
from tpack.input_source.proxy import ProxyInput
from tpack.multi_worker.all_reduce import Exchange, all_reduce_between_workers
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.sums import on_device, on_device_of
from tpack.tower.context import current_tower_context
from tpack.tower.grads import Gradient, ReduceOp, is_sparse
from tpack.tower.per_graph import PerGraph
from tpack.types import GradsAndVars, Peers
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count

_WEIGHT = "weight_of_uneven_data"


@check_arguments
class UnevenData(ProxyDataFlow):
    """One pass of a flow, and then its last data point with weight 0 until the pass has a given length.

    For workers with different amounts of data: `MultiWorkerTrainerReplicated` leaves out what has weight 0, so each
    step is the mean over those that still have data. It is the outermost flow, in all workers.

    Args:
        ds: the flow of this worker.
        size: the data points of a pass of each worker: at least those of the longest flow, and the steps of an epoch
            times the towers of a worker.

    Raises:
        ConfigError: ``size`` is less than 1.

    Example:
        ``UnevenData(BatchData(my_files, 64), size=100)``
    """

    def __init__(self, ds: DataFlow, size: int) -> None:
        super().__init__(ds)
        self._size = check_count(self, "size", size)
        # The number of points yielded, the last one in a list, and whether the wrapped flow's pass has ended.
        self._passes: Passes[tuple[int, list[Any], bool]] = Passes((0, [], False))
        self._has_warned = False
        self.largest_pass = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            DataExhaustedError: The flow has no data point.
            DataPointError: A data point is no list, tuple or dict.
        """
        one = self._passes.begin()
        count, last, has_ended = one.value
        if not has_ended:
            for point in self.ds:
                if count == self._size:
                    self._warn_of_rest()
                    self.ds.end_pass()
                    break
                count, last = count + 1, [point]
                one.value = count, last, False
                yield _with_weight(point, 1)
            if not last:
                raise DataExhaustedError(f"{type(self.ds).__name__} yielded nothing: UnevenData needs a data point")
            self.largest_pass = max(self.largest_pass, count)
        while count < self._size:
            count += 1
            one.value = count, last, True
            yield _with_weight(last[0], 0)
        self._passes.end(one)

    def _warn_of_rest(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                f"UnevenData(size={self._size}) leaves out the rest of a pass of {type(self.ds).__name__}, which is "
                "longer: size is that of the longest flow of all workers."
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow, the number of points, and the last one where it may be repeated."""
        count, last, has_ended = self._passes.value
        length = length_or_none(self.ds)
        may_end = has_ended or length is None or count >= length
        points = freeze_points(self, last if may_end else [])
        return make_state(self, ds=self.ds.state_dict(), points=points, count=count, has_ended=has_ended)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        saved = StateReader(self, state, "ds", "points", "count", "has_ended")
        count, has_ended = saved.count("count", at_most=self._size), saved.flag("has_ended")
        points = saved.points("points", at_most=1)
        self.ds.load_state_dict(saved["ds"])
        self._passes.go_to((count, points, has_ended))


def _with_weight(point: Any, weight: int) -> Any:
    value = np.float32(weight)
    if isinstance(point, Mapping):
        return {**point, _WEIGHT: value}
    if not isinstance(point, list | tuple):
        raise DataPointError(f"UnevenData got a data point of {type(point).__name__}: expected a list, tuple or dict")
    return [*point, value]


class TowerWeights:
    """The weights of the towers' data in the graph of a worker."""

    def __init__(self) -> None:
        self._of_towers: dict[int, tf.Tensor] = {}

    def note(self, weight: tf.Tensor) -> None:
        """Note the weight of the current tower's data."""
        self._of_towers[current_tower_context().index] = weight

    def masked(self, grad_fn: Callable[[], GradsAndVars]) -> Callable[[], GradsAndVars]:
        """Return a function that builds a tower whose gradients are zero, or have no rows, where its data weigh 0."""

        def of_data() -> GradsAndVars:
            pairs = grad_fn()
            has_data = self._of_towers[current_tower_context().index] > 0
            return [(_masked(grad, has_data), variable) for grad, variable in pairs]

        return of_data

    def mean(self, sums: Sequence[Gradient], group: WorkerGroup) -> list[Gradient]:
        """Return sums over all towers of all workers divided by the sum of their weights, by 1 where that is 0."""
        with on_device(group.device()):
            own = tf.add_n([self._of_towers[index] for index in sorted(self._of_towers)], name="weight_of_data")
        # As it is, since a rounded sum would be another number of towers.
        exchange = Exchange(names=["the weight of the data"])
        (total,) = all_reduce_between_workers(group, [own], ReduceOp.SUM, name="weight_of_data", exchange=exchange)
        with on_device(group.device()):
            divisor = tf.maximum(total, 1.0)
        return [_divided(grad, divisor) for grad in sums]


_weights: PerGraph[list[TowerWeights]] = PerGraph(list)


def weights_here() -> TowerWeights | None:
    """Return the weights of the current graph; None where all data count alike."""
    known = _weights.here()
    return known[-1] if known else None


def _divided(grad: Gradient, divisor: tf.Tensor) -> Gradient:
    with on_device_of(grad):
        if is_sparse(grad):
            values = grad.values / tf.cast(divisor, grad.values.dtype)
            return tf.IndexedSlices(values, grad.indices, grad.dense_shape)
        return grad / tf.cast(divisor, grad.dtype)


def _masked(grad: Gradient, has_data: tf.Tensor) -> Gradient:
    with on_device_of(grad):
        if is_sparse(grad):
            # Rows of zeros would still count as touched.
            count = tf.where(has_data, tf.size(grad.indices), 0)
            return tf.IndexedSlices(grad.values[:count], grad.indices[:count], grad.dense_shape)
        return tf.where(has_data, grad, tf.zeros_like(grad))


def flow_of_uneven_data(source: InputSource) -> UnevenData | None:
    """Return the `UnevenData` of a source; None if there is none.

    Raises:
        ConfigError: It is wrapped by another flow.
    """
    flow = source.dataflow
    if flow is None or isinstance(flow, UnevenData):
        return flow
    inner = next((each for each in flows_in(flow) if isinstance(each, UnevenData)), None)
    if inner is not None:
        raise ConfigError(
            f"UnevenData got {type(flow).__name__} around it: expected to be the outermost flow; wrap that one in it"
        )
    return None


class UnevenInput(ProxyInput):
    """Source that takes the weight out of the data points of an `UnevenData`, and notes it for the builder."""

    def _setup(self, signature: Sequence[tf.TensorSpec]) -> None:
        _weights.here().append(TowerWeights())
        super()._setup([*signature, tf.TensorSpec([], tf.float32, _WEIGHT)])

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        *tensors, weight = super()._get_input_tensors()
        _weights.here()[-1].note(weight)
        return tensors


class CheckUnevenData(Callback):
    """Compare the passes of `UnevenData` with the epoch, before training; warn of steps in which nobody had data."""

    _chief_only = False

    def __init__(self, flow: UnevenData, num_towers: int, peers: Peers) -> None:
        self._flow, self._num_towers, self._peers = flow, num_towers, peers
        self._has_warned = False

    def _before_train(self) -> None:
        steps = self.trainer.loop.steps_per_epoch
        sizes = self._peers.gather("the size of uneven data", len(self._flow))
        if len(set(sizes)) > 1:
            raise ClusterError(f"UnevenData got size={sizes} in the workers by rank: expected the same in all")
        if steps * self._num_towers != sizes[0]:
            raise ConfigError(
                f"UnevenData got size={sizes[0]} and {steps} steps an epoch of {self._num_towers} towers: expected "
                f"size={steps * self._num_towers}, so that a pass is an epoch"
            )

    def _after_epoch(self) -> None:
        if self._has_warned:
            return
        own = self._flow.largest_pass
        longest = max(self._peers.gather("the length of uneven data", own, timeout_secs=LONG_WAIT_SECS))
        num_empty = (len(self._flow) - longest) // self._num_towers
        if longest and num_empty > 0:
            self._has_warned = True
            if self.trainer.is_chief:
                logger.warning(
                    f"UnevenData(size={len(self._flow)}) got {longest} data points in the longest pass of all workers: "
                    f"the last {num_empty} steps of an epoch apply gradients of zero."
                )
