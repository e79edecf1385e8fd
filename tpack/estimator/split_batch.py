"""Cut a batch into as many equal parts as there are towers.

A batch is a tensor, a sparse tensor, or dicts, lists and tuples of such. The first dimension counts the examples.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError


def split_batch(batch: Any, num_shards: int) -> list[Any]:
    """Cut a batch along its first dimension, on the current device.

    Args:
        batch: a tensor or ``SparseTensor``, a nest of them, or None.
        num_shards: K, how many parts.

    Returns:
        K batches of the structure of the whole one, or K times None.

    Shapes:
        [B, ...] to K times [B / K, ...], for each tensor.

    Raises:
        ConfigError: A tensor has no first dimension, or one that K does not divide. Where it is not known before the
            graph runs, the run fails with an ``InvalidArgumentError`` that says the same.

    Source:
        The splitting of inputs in the seeds of ``replicate_model_fn``, which do not check sparse tensors.
    """
    if batch is None:
        return [None] * num_shards
    leaves = [_split(leaf, num_shards) for leaf in tf.nest.flatten(batch)]
    return [tf.nest.pack_sequence_as(batch, [shards[k] for shards in leaves]) for k in range(num_shards)]


def _split(leaf: Any, num_shards: int) -> list[Any]:
    if isinstance(leaf, tf.SparseTensor):
        _check_known_size(leaf, num_shards)
        with tf.control_dependencies(_guards(leaf.dense_shape[0], leaf.shape, num_shards, leaf.op.name)):
            guarded = tf.SparseTensor(tf.identity(leaf.indices), tf.identity(leaf.values), leaf.dense_shape)
        guarded_split: list[Any] = tf.sparse.split(sp_input=guarded, num_split=num_shards, axis=0)
        return guarded_split
    leaf = tf.convert_to_tensor(leaf)
    _check_known_size(leaf, num_shards)
    with tf.control_dependencies(_guards(tf.shape(leaf)[0], leaf.shape, num_shards, leaf.op.name)):
        return list(tf.split(leaf, num_shards))


def _check_known_size(leaf: Any, num_shards: int) -> None:
    shape = leaf.shape
    if shape.rank == 0:
        raise ConfigError(f"{leaf!r} has no batch dimension, and is to be split over {num_shards} towers")
    size = shape[0] if shape.rank else None
    if size is not None and size % num_shards:
        raise ConfigError(
            f"a batch must be divisible by the number of towers, and {leaf!r} with its {size} example(s) is not "
            f"divisible by {num_shards}"
        )


def _guards(size: Any, shape: Any, num_shards: int, name: str) -> list[Any]:
    """Return the check that is left for when the graph runs."""
    if shape.rank is not None and shape[0] is not None:
        return []
    message = f"a batch must be divisible by the number of towers, {num_shards}; the size of {name} is not"
    return [tf.debugging.assert_equal(size % num_shards, tf.zeros([], size.dtype), message=message)]
