"""Exchange of gradients between workers that combines them by Adasum.

A gradient needs whole scalar products, so it is not cut: it has an owner, a worker to which all send theirs, and which
combines them up the tree of ranks and hands the result out. Owners are chosen by size, so that a worker sends about as
many bytes as in an exchange in parts, in two hops. A gradient that is most of a model is the load of its owner alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow.compat.v1 as tf

from tpack.multi_worker.gradient_buckets import joined, parted
from tpack.multi_worker.routes import Noting, note_nothing
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.algorithms.adasum import adasum_tree, check_has_angle
from tpack.reduction.sums import dense_slices, on_device
from tpack.tower.devices import deal_out
from tpack.tower.grads import Gradient, is_sparse


def densified(group: WorkerGroup, grads: Sequence[Gradient]) -> list[tf.Tensor]:
    """Return gradients, of which ``IndexedSlices`` have become dense on the worker's CPU.

    Raises:
        ReductionError: One is not of a floating-point type, or the shape of a sparse one is not known.
    """
    for grad in grads:
        check_has_angle("all_reduce_between_workers", grad)
    dense = []
    for grad in grads:
        with on_device(group.device()):
            dense.append(dense_slices(grad, grad.shape) if is_sparse(grad) else grad)
    return dense


def owners_of(grads: Sequence[tf.Tensor], count: int) -> list[int]:
    """Return the owner of each gradient, a number below ``count``, by their bytes: see `deal_out`."""
    return deal_out([int(grad.shape.num_elements()) * int(grad.dtype.size) for grad in grads], count)


@dataclass(frozen=True)
class AdasumBucket:
    """Dense gradients of one dtype, each of which its owner combines.

    Attributes:
        group: the workers.
        name: that of the queues.
        owners: the rank of each gradient's owner.
        dtype_on_wire: returns the dtype in which numbers of a dtype are sent.
        is_copied: see `variables_change_in_place`.
        note_arrived: as for `Bucket`.
    """

    group: WorkerGroup
    name: str
    owners: Sequence[int]
    dtype_on_wire: Callable[[tf.DType], tf.DType]
    is_copied: bool
    note_arrived: Noting = note_nothing

    def reduce(self, grads: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Combine N tensors over the workers."""
        group, dtype = self.group, grads[0].dtype.base_dtype
        of_owner: dict[int, list[int]] = {}
        for n, owner in enumerate(self.owners):
            of_owner.setdefault(owner, []).append(n)
        sends, vectors = [], {}
        arrived: list[tf.Tensor] = []
        with on_device(group.device()):
            for owner, members in of_owner.items():
                own = tf.cast(joined([grads[n] for n in members], is_copied=self.is_copied), self.dtype_on_wire(dtype))
                if owner == group.rank:
                    arrived = [own if o == group.rank else self._take("part", o, own) for o in range(group.size)]
                    vectors[owner] = self._combined(arrived, [grads[n] for n in members])
                    sends += [group.put(f"{self.name}/total", o, [vectors[owner]]) for o in group.others]
                else:
                    sends.append(group.put(f"{self.name}/part", owner, [own]))
                    vectors[owner] = self._take("total", owner, own)
            # A worker that owns nothing here knows of the others by what an owner has combined.
            arrived = arrived or [vectors.get(o, next(iter(vectors.values()))) for o in range(group.size)]
            results: dict[int, tf.Tensor] = {}
            with tf.control_dependencies([*sends, *self.note_arrived(group, arrived)]):
                for owner, members in of_owner.items():
                    total = tf.cast(tf.identity(vectors[owner]), dtype)
                    results |= dict(zip(members, parted(total, [grads[n] for n in members]), strict=True))
        return [results[n] for n in range(len(grads))]

    def _combined(self, vectors: Sequence[tf.Tensor], likes: Sequence[tf.Tensor]) -> tf.Tensor:
        """Combine each of the gradients in W vectors, and join the results, as they are sent."""
        columns = zip(*(parted(vector, likes) for vector in vectors), strict=True)
        totals = [tf.cast(adasum_tree(column), vectors[0].dtype) for column in columns]
        return joined(totals, is_copied=False)

    def _take(self, name: str, sender: int, like: tf.Tensor) -> tf.Tensor:
        (taken,) = self.group.take(f"{self.name}/{name}", sender, [like.dtype], [like.shape])
        return tf.identity(taken)
