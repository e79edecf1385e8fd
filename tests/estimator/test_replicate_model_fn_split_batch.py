"""Batches are cut into equal parts along the first dimension, whatever they are made of."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.replicate_model_fn import split_batch


def test_parts_of_nests_are_numpys(session8, rng):
    x, y = rng.normal(size=(8, 3)).astype("float32"), np.arange(8)
    dense = rng.integers(3, size=(8, 4)).astype("int64")
    sparse = tf.sparse.from_dense(tf.constant(dense))
    batch = {"x": x, "more": [tf.constant(y), (sparse,)]}
    for num_shards in (1, 2, 4, 8):
        shards = session8.run(
            [
                {"x": shard["x"], "y": shard["more"][0], "sparse": tf.sparse.to_dense(shard["more"][1][0])}
                for shard in split_batch(batch, num_shards)
            ]
        )
        assert len(shards) == num_shards
        for name, whole in {"x": x, "y": y, "sparse": dense}.items():
            for part, wanted in zip((shard[name] for shard in shards), np.split(whole, num_shards), strict=True):
                np.testing.assert_array_equal(part, wanted)


def test_none_and_one_sparse_tensor(session8):
    assert split_batch(None, 3) == [None] * 3
    sparse = tf.SparseTensor([[0, 0], [3, 1]], [1.0, 2.0], [4, 2])
    first, second = split_batch(sparse, 2)
    assert session8.run(first).values.tolist() == [1]
    assert session8.run(second).indices.tolist() == [[1, 1]]


@pytest.mark.parametrize("batch", [np.zeros([6, 2]), {"a": np.zeros([8]), "b": np.zeros([6, 2])}])
def test_batch_that_is_not_divisible_is_refused(graph, batch):
    with pytest.raises(ConfigError, match=r"divisible by the number of towers, 4: .* has 6 example\(s\)"):
        split_batch(batch, 4)


def test_sparse_batch_that_is_not_divisible_is_refused(graph):
    with pytest.raises(ConfigError, match="divisible by the number of towers, 4"):
        split_batch(tf.SparseTensor([[0, 0]], [1.0], [6, 2]), 4)


def test_scalars_are_refused(graph):
    with pytest.raises(ConfigError, match="no batch dimension"):
        split_batch({"a": tf.constant(1.0)}, 2)


@pytest.mark.parametrize("shape", [[None, 2], None])
def test_unknown_sizes_are_guarded(session8, rng, shape):
    placeholder = tf.placeholder(tf.float32, shape)
    shards = split_batch(placeholder, 4)
    values = rng.normal(size=(8, 2)).astype("float32")
    for part, wanted in zip(session8.run(shards, {placeholder: values}), np.split(values, 4), strict=True):
        np.testing.assert_array_equal(part, wanted)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a batch must be divisible by the number of towers, 4"):
        session8.run(shards[0], {placeholder: values[:6]})


def test_unknown_sizes_of_sparse_tensors_are_guarded(session8):
    placeholder = tf.sparse.placeholder(tf.float32)
    shards = split_batch(placeholder, 2)
    value = tf.SparseTensorValue([[1, 0], [3, 1]], [1.0, 2.0], [4, 2])
    assert [part.values.tolist() for part in session8.run(shards, {placeholder: value})] == [[1], [2]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="a batch must be divisible by the number of towers, 2"):
        session8.run(shards, {placeholder: value._replace(dense_shape=[5, 2])})
