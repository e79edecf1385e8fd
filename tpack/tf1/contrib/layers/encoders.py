"""Embedding vectors of word ids: one for each word, or their mean for a sentence."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.framework.variables import model_variable
from tpack.tf1.contrib.layers.layer_parts import dense_to_sparse
from tpack.tf1.signatures import like


def bow_encoder(
    ids: Any,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> tf.Tensor:
    """Return the mean of the vectors of each sentence's words.

    Args:
        ids: the word ids.
        vocab_size: the number of words.
        embed_dim: the size of the vectors.
        sparse_lookup: compute the mean without each word's vector; needed if ``ids`` is sparse. Word 0 is then padding,
            unless a sentence has no other.
        initializer: of the vectors.
        regularizer: of the vectors.
        trainable: whether optimizers change them.
        scope: the variable scope, ``bow_encoder`` by default.
        reuse: of the variable scope.

    Shapes:
        [batch, length] to [batch, embed_dim].

    Creates:
        ``embeddings`` [vocab_size, embed_dim].

    Raises:
        ConfigError: ``ids`` is sparse, and the lookup is not.
    """
    with tf.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim]
        embeddings = model_variable(
            "embeddings", shape, initializer=initializer, regularizer=regularizer, trainable=trainable
        )
        is_sparse = isinstance(ids, tf.SparseTensor)
        if sparse_lookup:
            return tf.nn.safe_embedding_lookup_sparse(
                [embeddings], ids if is_sparse else dense_to_sparse(ids), combiner="mean", default_id=0
            )
        if is_sparse:
            raise ConfigError("bow_encoder got sparse_lookup=False and ids that are a SparseTensor: expected True")
        return tf.reduce_mean(tf.nn.embedding_lookup(embeddings, ids), 1)


@like(bow_encoder, without="sparse_lookup", after={"embed_dim": {"unique": False}}, vocab_size=None, embed_dim=None)
def embed_sequence(
    ids: Any, vocab_size: int | None, embed_dim: int | None, unique: bool, scope: Any, reuse: Any, **given: Any
) -> tf.Tensor:
    """Return the vector of each word; arguments not listed are those of `bow_encoder`.

    Args:
        ids: the word ids.
        vocab_size: the number of words; may be None with ``reuse``, like ``embed_dim``.
        embed_dim: the size of the vectors.
        unique: look up each word once.
        scope: the variable scope, ``EmbedSequence`` by default.
        reuse: of the variable scope.
        **given: see `bow_encoder`.

    Shapes:
        [batch, length] to [batch, length, embed_dim].

    Creates:
        ``embeddings`` [vocab_size, embed_dim].

    Raises:
        ConfigError: A size is missing for a new variable.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ConfigError(
            f"embed_sequence got vocab_size={vocab_size} and embed_dim={embed_dim}: expected both unless it reuses"
        )
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
        embeddings = model_variable("embeddings", shape, **given)
        return embedding_lookup_unique(embeddings, ids) if unique else tf.nn.embedding_lookup(embeddings, ids)


def embedding_lookup_unique(
    params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None
) -> tf.Tensor:
    """Return the vector of each id, looking up each distinct id once.

    Args:
        params: the vectors, or a list of parts of them.
        ids: the ids.
        partition_strategy: the numbering of the parts: ``"mod"`` or ``"div"``.
        name: of the operations.

    Shapes:
        [...] to [..., size of the vectors].
    """
    with tf.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = tf.convert_to_tensor(ids)
        different, places = tf.unique(tf.reshape(ids, [-1]))
        found = tf.nn.embedding_lookup(params, different, partition_strategy)
        rows = tf.gather(found, places)
        outputs = tf.reshape(rows, tf.concat([tf.shape(ids), tf.shape(found)[1:]], 0))
        outputs.set_shape(ids.shape.concatenate(found.shape[1:]))
        return outputs


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: tf.SparseTensor,
    sparse_weights: tf.SparseTensor | None = None,
    combiner: str | None = None,
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: float | None = None,
) -> tf.Tensor:
    """Combine the vectors of each row's ids, as ``tf.nn.safe_embedding_lookup_sparse`` does."""
    given = {"default_id": default_id, "partition_strategy": partition_strategy, "max_norm": max_norm}
    return tf.nn.safe_embedding_lookup_sparse(
        embedding_weights, sparse_ids, sparse_weights, combiner=combiner or "mean", name=name, **given
    )
