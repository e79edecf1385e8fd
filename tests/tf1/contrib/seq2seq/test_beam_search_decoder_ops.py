import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib.seq2seq.beam_search_decoder import gather_tree, gather_tree_from_array, tile_batch


def way(parents, beam, length):
    """Return the beam of each step on the way that ends in a beam."""
    beams = [beam]
    for step in range(length - 1, 0, -1):
        beams.append(parents[step, beams[-1]])
    return beams[::-1]


@pytest.mark.parametrize("is_known", [True, False])
def test_ways_are_followed_from_the_end(session8, rng, is_known):
    ids = rng.integers(0, 5, (6, 4, 3)).astype("int32")
    parents = rng.integers(0, 3, (6, 4, 3)).astype("int32")
    lengths, end = [6, 3, 1, 0], 4
    wanted = np.full_like(ids, end)
    for row, length in enumerate(lengths):
        for beam in range(3):
            beams = way(parents[:, row], beam, length)[: max(length, 0)]
            tokens = [ids[step, row, at] for step, at in enumerate(beams)][:length]
            stop = tokens.index(end) if end in tokens else len(tokens)
            wanted[:stop, row, beam] = tokens[:stop]
    given = [array if is_known else tf.placeholder_with_default(array, [None] * 3) for array in (ids, parents)]
    np.testing.assert_array_equal(session8.run(gather_tree(*given, lengths, end)), wanted)


def test_what_belongs_to_steps_is_ordered_as_they_are(session8, rng):
    parents = rng.integers(0, 3, (5, 2, 3)).astype("int32")
    values = rng.normal(size=(5, 2, 3, 4)).astype("float32")
    lengths = np.array([[5, 4, 2], [3, 3, 1]])
    wanted = values.copy()
    for row, beam in np.ndindex(2, 3):
        for step, at in enumerate(way(parents[:, row], beam, lengths[row].max())[: lengths[row, beam]]):
            # It was written before beams changed places.
            wanted[step, row, beam] = values[step, row, parents[step, row, at]]
    np.testing.assert_array_equal(session8.run(gather_tree_from_array(values, parents, lengths)), wanted)


def test_entries_of_a_batch_are_tiled_one_behind_the_other(session8):
    x, y = tf.placeholder_with_default([[1.0], [2.0]], [None, 1]), tf.constant([3, 4])
    tiled = tile_batch({"x": x, "y": y}, 2)
    assert (tiled["x"].shape.as_list(), tiled["y"].shape.as_list()) == ([None, 1], [4])
    got = session8.run(tiled)
    assert (got["x"].tolist(), got["y"].tolist()) == ([[1.0], [1.0], [2.0], [2.0]], [3, 3, 4, 4])


def test_an_array_is_tiled_by_who_writes_it(graph):
    array = tf.TensorArray(tf.float32, size=1)
    assert tile_batch(array, 2) is array


def test_what_has_no_batch_is_refused(graph):
    with pytest.raises(ConfigError, match="expected a statically known rank, and a batch"):
        tile_batch(tf.constant(1), 2)
    with pytest.raises(WrongTypeError, match="tile_batch got multiplier="):
        tile_batch(tf.constant([1]), tf.constant(2))
