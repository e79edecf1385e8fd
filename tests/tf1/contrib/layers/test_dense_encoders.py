"""Vectors for the numbers of words."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import names, run, values
from tpack.errors import ConfigError
from tpack.tf1.contrib import layers

IDS = np.array([[1, 2, 0], [3, 3, 1]])


def test_vectors_of_words(graph):
    outputs = [
        layers.embed_sequence(IDS, 5, 4),
        layers.embed_sequence(IDS, 5, 4, unique=True, scope="EmbedSequence", reuse=True),
        layers.bow_encoder(IDS, 5, 4),
        layers.bow_encoder(IDS, 5, 4, sparse_lookup=False, scope="dense"),
    ]
    assert names() == ["EmbedSequence/embeddings", "bow_encoder/embeddings", "dense/embeddings"]
    assert names(tf.GraphKeys.MODEL_VARIABLES) == names()
    assert [output.shape.as_list() for output in outputs[:2]] == [[2, 3, 4]] * 2
    given = values()
    vectors, sparse, dense = (given[f"{name}/embeddings"] for name in ("EmbedSequence", "bow_encoder", "dense"))
    expected = [
        vectors[IDS],
        vectors[IDS],
        np.stack([sparse[[1, 2]].mean(0), sparse[[3, 3, 1]].mean(0)]),
        dense[IDS].mean(1),
    ]
    for result, wanted in zip(run(outputs, given), expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)


def test_words_that_are_sparse(graph):
    ids = tf.SparseTensor([[0, 0], [0, 1]], tf.constant([1, 2], tf.int64), [2, 2])
    table = tf.constant(np.arange(6, dtype="f").reshape(3, 2))
    found = run(layers.safe_embedding_lookup_sparse([table], ids, combiner="sum"))
    np.testing.assert_array_equal(found, [[6, 8], [0, 0]])
    assert run(layers.bow_encoder(ids, 3, 2)).shape == (2, 2)
    with pytest.raises(ConfigError, match="got sparse_lookup=False"):
        layers.bow_encoder(ids, 3, 2, sparse_lookup=False, scope="other")
    with pytest.raises(ConfigError, match="expected both unless"):
        layers.embed_sequence(IDS)
