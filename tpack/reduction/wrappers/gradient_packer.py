"""Concatenate the gradients of one tower into a few large tensors, and split them again.

Each reduced tensor has a fixed cost, so a few large ones are cheaper than many small ones where that cost dominates.
In return nothing is reduced before the last gradient is ready, and there are two more passes over the memory.
"""

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.base import Reducer, ReducerWrapper
from tpack.reduction.chunking import concat_flat, cut
from tpack.reduction.gradients import transposed
from tpack.reduction.sums import on_device, on_device_of
from tpack.tower.grads import Column, ReduceOp
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count

_MIN_SIZE = 1024
"""The fewest elements that make a pack worth copying."""


@check_arguments
class GradientPacker:
    """A packer of a fixed list of gradients into ``num_split`` tensors of nearly one size.

    Args:
        num_split: the number of packs.

    Raises:
        ConfigError: ``num_split`` is less than 1.

    Example:
        ::

            packer = GradientPacker(8)
            if packer.compute_strategy(all_grads[0]):
                packs = packer.pack_all(all_grads, devices)
                reduced = packer.unpack_all(allreduce_grads(packs, average=True), devices)

    Source:
        ``GradientPacker`` of tensorpack's graph builder.
    """

    def __init__(self, num_split: int = 8) -> None:
        check_count(self, "num_split", num_split)
        self._num_split = num_split
        self._shapes: list[tf.TensorShape] = []

    def compute_strategy(self, grads: Sequence[tf.Tensor]) -> bool:
        """Decide how to pack gradients like these; once per packer.

        Args:
            grads: the dense gradients of one tower, or others of the same shapes.

        Returns:
            Whether they can be packed. If not, a log line gives the reason: a shape is not fully defined, there are
            fewer than 1024 elements per pack, or there are several dtypes.

        Raises:
            ReductionError: The packer has a strategy already.
        """
        if self._shapes:
            raise ReductionError("this GradientPacker has a strategy already; use one per list of gradients")
        obstacle = self._find_obstacle(grads)
        if obstacle is not None:
            logger.info(f"Gradients are reduced without packing: {obstacle}.")
            return False
        self._shapes = [grad.shape for grad in grads]
        size = sum(self._sizes)
        logger.info(f"{len(grads)} gradients with {size} elements are reduced in {self._num_split} pack(s).")
        return True

    def pack(self, grads: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Concatenate gradients, in the order of `compute_strategy`, and split them into packs on the current device.

        Shapes:
            N tensors of the shapes of the strategy, to ``num_split`` vectors.

        Raises:
            ReductionError: There is no strategy, or the gradients have other shapes.
        """
        self._check_strategy()
        if len(grads) != len(self._shapes):
            raise ReductionError(f"GradientPacker got {len(grads)} gradients: expected {len(self._shapes)}")
        for grad, shape in zip(grads, self._shapes, strict=True):
            if not grad.shape.is_compatible_with(shape):
                raise ReductionError(f"GradientPacker got {grad.name} of shape {grad.shape}: expected {shape}")
        with tf.name_scope("pack"):
            return cut(concat_flat(grads), self._num_split)

    def unpack(self, grad_packs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Split packs, in the order of `pack`, into gradients on the current device.

        Shapes:
            ``num_split`` vectors to N tensors of the shapes of the strategy.

        Raises:
            ReductionError: There is no strategy, or a different number of packs.
        """
        self._check_strategy()
        if len(grad_packs) != self._num_split:
            raise ReductionError(f"GradientPacker got {len(grad_packs)} packs: expected {self._num_split}")
        with tf.name_scope("unpack"):
            flat = tf.split(tf.concat(list(grad_packs), axis=0), self._sizes)
            return [tf.reshape(piece, shape) for piece, shape in zip(flat, self._shapes, strict=True)]

    def pack_all(self, all_grads: Sequence[Sequence[tf.Tensor]], devices: Sequence[str]) -> list[list[tf.Tensor]]:
        """Pack the gradients of every tower on its device.

        Shapes:
            K x N tensors to K x ``num_split`` vectors.

        Raises:
            ReductionError: As `pack`, or there are not as many devices as towers.
        """
        return self._on_each(self.pack, all_grads, devices)

    def unpack_all(self, all_packed: Sequence[Sequence[tf.Tensor]], devices: Sequence[str]) -> list[list[tf.Tensor]]:
        """Unpack the packs of every tower on its device.

        Shapes:
            K x ``num_split`` vectors to K x N tensors.

        Raises:
            ReductionError: As `unpack`, or there are not as many devices as towers.
        """
        return self._on_each(self.unpack, all_packed, devices)

    @property
    def _sizes(self) -> list[int]:
        return [shape.num_elements() for shape in self._shapes]

    @staticmethod
    def _on_each(
        function: Callable[[Sequence[tf.Tensor]], list[tf.Tensor]],
        towers: Sequence[Sequence[tf.Tensor]],
        devices: Sequence[str],
    ) -> list[list[tf.Tensor]]:
        if len(towers) != len(devices):
            raise ReductionError(
                f"GradientPacker got {len(devices)} devices for {len(towers)} towers: expected as many"
            )
        results = []
        for tower, device in zip(towers, devices, strict=True):
            with on_device(device):
                results.append(function(tower))
        return results

    def _check_strategy(self) -> None:
        if not self._shapes:
            raise ReductionError("this GradientPacker has no strategy; call compute_strategy, which must return True")

    def _find_obstacle(self, grads: Sequence[tf.Tensor]) -> str | None:
        for grad in grads:
            if not grad.shape.is_fully_defined():
                return f"the shape {grad.shape} of {grad.name} is not fully defined"
        size = sum(grad.shape.num_elements() for grad in grads)
        if size / self._num_split < _MIN_SIZE:
            return f"{size} elements are too few for {self._num_split} pack(s) of {_MIN_SIZE} and more"
        dtypes = sorted({grad.dtype.base_dtype.name for grad in grads})
        if len(dtypes) > 1:
            return f"they have different dtypes: {', '.join(dtypes)}"
        return None


@check_arguments
class GradientPackingReducer(ReducerWrapper):
    """A wrapper that packs the dense gradients of each tower on its device and unpacks the results.

    Where packing is impossible or does not pay (see `GradientPacker.compute_strategy`), a log line gives the reason and
    the inner reducer gets the gradients themselves. Sparse gradients are never packed.

    Args:
        inner: reduces the packs.
        num_packs: the number of packs per tower.

    Source:
        tensorpack's replicated training, which packs for some of its modes.
    """

    def __init__(self, inner: Reducer, num_packs: int = 8) -> None:
        check_count(self, "num_packs", num_packs)
        super().__init__(inner, "packed")
        self._num_packs = num_packs

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce the packs of all columns together."""
        packer, towers = GradientPacker(self._num_packs), transposed(columns)
        if not packer.compute_strategy(towers[0]):
            return self.inner.reduce_dense(columns, op)
        packs = []
        for tower in towers:
            with on_device_of(tower[0]):
                packs.append(packer.pack(tower))
        unpacked = []
        for tower, reduced in zip(towers, transposed(self.inner.reduce_columns(transposed(packs), op)), strict=True):
            with on_device_of(tower[0]):
                grads = packer.unpack(reduced)
            # A gradient need not be on the device of the tower's first.
            for n, original in enumerate(tower):
                with on_device_of(original):
                    grads[n] = tf.identity(grads[n])
            unpacked.append(grads)
        return [*transposed(unpacked)]
