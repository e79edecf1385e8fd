"""What a beam is made of: copies of a batch, and the way back from the last step to the first.

B sequences, K beams, T steps.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.utils.validation import check_count

__all__ = ["gather_tree", "gather_tree_from_array", "tile_batch"]


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Return each entry of a batch several times, one behind the other, as a decoder with beams wants it.

    Args:
        t: a tensor or a nest of them, [B, ...].
        multiplier: how often: the number of beams.
        name: of the operations.

    Shapes:
        [B * multiplier, ...].

    Raises:
        ConfigError: A tensor has no batch, or no rank that is known, or there is no multiplier.
    """
    check_count("tile_batch", "multiplier", multiplier)
    with tf.name_scope(name, "tile_batch", tf.nest.flatten(t)):
        return tf.nest.map_structure(lambda part: _tiled(part, multiplier), t)


def _tiled(part: Any, multiplier: int) -> Any:
    # A history of alignments grows with the beams that fill it.
    if isinstance(part, tf.TensorArray):
        return part
    part = tf.convert_to_tensor(part, name="t")
    if not part.shape.rank:
        raise ConfigError(
            f"tile_batch got a tensor of shape {part.shape}: t must have statically known rank and a batch"
        )
    tiled = tf.repeat(part, multiplier, axis=0)
    batch, *others = part.shape.as_list()
    tiled.set_shape([None if batch is None else batch * multiplier, *others])
    return tiled


def gather_tree(
    step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any, name: str | None = None
) -> Any:
    """Return the whole sequences of beams, from what each step chose and from which beam it came.

    Args:
        step_ids: the tokens, [T, B, K].
        parent_ids: the beam of the step before that each goes on from, [T, B, K].
        max_sequence_lengths: the number of steps of the longest beam, [B].
        end_token: the token of the end; behind the first one there are only these.
        name: of the operations.

    Shapes:
        [T, B, K].
    """
    with tf.name_scope(name, "GatherTree"):
        ids, parents = tf.convert_to_tensor(step_ids), tf.convert_to_tensor(parent_ids)
        end = tf.cast(end_token, ids.dtype)
        chosen = _follow(ids, parents, max_sequence_lengths)
        times = tf.range(tf.shape(ids)[0])[:, tf.newaxis, tf.newaxis]
        is_behind = times >= tf.cast(max_sequence_lengths, tf.int32)[tf.newaxis, :, tf.newaxis]
        ended = tf.cumsum(tf.cast(tf.equal(chosen, end), tf.int32), axis=0, exclusive=True) > 0
        sequences = tf.where(tf.logical_or(ended, is_behind), tf.fill(tf.shape(chosen), end), chosen)
        sequences.set_shape(ids.shape)
        return sequences


def _follow(values: Any, parents: Any, lengths: Any) -> Any:
    """Return the value of each step on the way that ends in each beam, [T, B, K]; behind the ends anything."""
    steps, batch, beams = tf.unstack(tf.shape(parents))
    start = tf.tile(tf.range(beams)[tf.newaxis], [batch, 1])
    lengths = tf.cast(lengths, tf.int32)

    def go_back(carried: Any, step: Any) -> Any:
        _, beam = carried
        time, value, parent = step
        before = tf.gather(parent, beam, batch_dims=1)
        # A way begins in the last step of its batch entry.
        is_on_way = (time < lengths)[:, tf.newaxis]
        return tf.gather(value, beam, batch_dims=1), tf.where_v2(is_on_way, before, beam)

    steps_back = (tf.range(steps), values, parents)
    first = (tf.zeros(tf.shape(values)[1:], values.dtype), start)
    found, _ = tf.scan(go_back, steps_back, initializer=first, reverse=True)
    return found


def gather_tree_from_array(t: Any, parent_ids: Any, sequence_length: Any) -> Any:
    """Return what belongs to each step of the ways of beams, such as alignments.

    A step writes before beams change places, so that of a way is with the beam that the step goes on from.

    Args:
        t: what each step wrote, [T, B, K, ...].
        parent_ids: the beam of the step before that each goes on from, [T, B, K].
        sequence_length: the lengths of the ways, [B, K].

    Shapes:
        [T, B, K, ...]; behind the ends what the beam of that number has.
    """
    steps, batch, beams = tf.unstack(tf.shape(parent_ids))
    numbers = tf.broadcast_to(tf.range(beams), [steps, batch, beams])
    ways = _follow(parent_ids, parent_ids, tf.reduce_max(sequence_length, axis=1))
    is_on_way = tf.transpose(tf.sequence_mask(sequence_length, steps), [2, 0, 1])
    gathered = tf.gather(t, tf.where(is_on_way, ways, numbers), batch_dims=2)
    gathered.set_shape(t.shape)
    return gathered
