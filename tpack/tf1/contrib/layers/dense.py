"""Fully connected layers, and vectors of word ids: one for each word, or their mean for a sentence."""

import functools
import operator
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib.framework.scoping import add_arg_scope
from tpack.tf1.contrib.framework.variables import model_variable
from tpack.tf1.contrib.layers.convolutions import convolution
from tpack.tf1.contrib.layers.layer_weights import XAVIER, ZEROS, LayerParts
from tpack.tf1.contrib.layers.utils import collect_named_outputs, last_dimension
from tpack.tf1.signatures import like
from tpack.utils.validation import shown


@add_arg_scope
@like(convolution, without="kernel_size stride padding data_format rate conv_dims")
def fully_connected(inputs: Any, num_outputs: int, reuse: Any, scope: Any, **given: Any) -> tf.Tensor:
    """Multiply by a matrix and add a bias or normalise; other arguments are those of `convolution`.

    Args:
        inputs: of at least two dimensions, the last of them known.
        num_outputs: the size of the last dimension of the output.
        reuse: of the variable scope.
        scope: the variable scope, ``fully_connected`` by default.
        **given: those of `convolution`; ``weights`` are the matrix.

    Shapes:
        [..., n] to [..., num_outputs].

    Creates:
        ``weights`` [n, num_outputs] and ``biases`` [num_outputs].

    Raises:
        ConfigError: The input has too few dimensions or its last one is unknown, or ``num_outputs`` is below 1.
        WrongTypeError: ``num_outputs`` is not an integer.
    """
    num_outputs = _integer("num_outputs", num_outputs)
    with tf.variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        num_inputs = last_dimension(inputs.shape, min_rank=2)
        layer = LayerParts(inputs.dtype, **given)
        matrix = layer.kernel([num_inputs, num_outputs], "kernel")
        bias = layer.bias(num_outputs, "bias")
        if inputs.shape.rank == 2:
            outputs = tf.matmul(inputs, matrix)
        else:
            outputs = tf.tensordot(inputs, tf.convert_to_tensor(matrix), [[inputs.shape.rank - 1], [0]])
        return layer.end(outputs if bias is None else tf.nn.bias_add(outputs, bias), sc)


relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)
relu6 = functools.partial(fully_connected, activation_fn=tf.nn.relu6)
elu = functools.partial(fully_connected, activation_fn=tf.nn.elu)
linear = functools.partial(fully_connected, activation_fn=None)


def legacy_fully_connected(
    x: Any,
    num_output_units: int,
    activation_fn: Any = None,
    weight_init: Any = XAVIER,
    bias_init: Any = ZEROS,
    name: str | None = None,
    weight_collections: Any = (tf.GraphKeys.WEIGHTS,),
    bias_collections: Any = (tf.GraphKeys.BIASES,),
    output_collections: Any = (tf.GraphKeys.ACTIVATIONS,),
    trainable: bool = True,
    weight_regularizer: Any = None,
    bias_regularizer: Any = None,
) -> tf.Tensor:
    """Multiply by a matrix and add a bias, with the argument names of the first layers of ``tf.contrib``.

    Args:
        x: of at least two dimensions, the last of them known.
        num_output_units: the size of the last dimension of the output.
        activation_fn: the last function; None for none.
        weight_init: of the matrix.
        bias_init: of the bias; None for no bias.
        name: the variable scope, ``fully_connected`` by default.
        weight_collections: those of the matrix, besides GLOBAL_VARIABLES.
        bias_collections: those of the bias, besides GLOBAL_VARIABLES.
        output_collections: those of the output.
        trainable: whether optimizers change the variables.
        weight_regularizer: of the matrix.
        bias_regularizer: of the bias.

    Creates:
        ``weights`` [n, num_output_units] and ``bias`` [num_output_units].

    Raises:
        ConfigError: The input has too few dimensions, or its last one is unknown.
    """
    num_output_units = _integer("num_output_units", num_output_units)
    with tf.variable_scope(name, "fully_connected", [x]):
        x = tf.convert_to_tensor(x)
        num_inputs = last_dimension(x.shape, min_rank=2)
        rows = x if x.shape.rank == 2 else tf.reshape(x, [-1, num_inputs])

        def make(name: str, shape: list[int], initializer: Any, regularizer: Any, collections: Any) -> tf.Variable:
            keys = list(dict.fromkeys([*(collections or ()), tf.GraphKeys.GLOBAL_VARIABLES]))
            options = {"trainable": trainable, "collections": keys, "regularizer": regularizer}
            return tf.get_variable(name, shape, x.dtype.base_dtype, initializer, **options)

        matrix = make("weights", [num_inputs, num_output_units], weight_init, weight_regularizer, weight_collections)
        outputs = tf.matmul(rows, matrix)
        if bias_init is not None:
            bias = make("bias", [num_output_units], bias_init, bias_regularizer, bias_collections)
            outputs = tf.nn.bias_add(outputs, bias)
        if x.shape.rank != 2:
            sizes = [tf.shape(x)[:-1], [num_output_units]]
            outputs = tf.reshape(outputs, tf.concat(sizes, 0))
            outputs.set_shape([*x.shape.as_list()[:-1], num_output_units])
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        for key in dict.fromkeys(output_collections or ()):
            tf.add_to_collection(key, outputs)
        return outputs


legacy_linear = functools.partial(legacy_fully_connected, activation_fn=None)
legacy_relu = functools.partial(legacy_fully_connected, activation_fn=tf.nn.relu)


def _integer(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise WrongTypeError(f"got {name}={shown(value)}: expected an integer") from error
    if number < 1:
        raise ConfigError(f"got {name}={number}: expected at least 1")
    return number


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


@add_arg_scope
def dense_to_sparse(
    tensor: Any, eos_token: int = 0, outputs_collections: Any = None, scope: Any = None
) -> tf.SparseTensor:
    """Return the elements other than the end-of-sentence token, in the scope ``dense_to_sparse``."""
    with tf.variable_scope(scope, "dense_to_sparse", [tensor]) as sc:
        tensor = tf.convert_to_tensor(tensor)
        indices = tf.where(tf.not_equal(tensor, tf.constant(eos_token, tensor.dtype)))
        values = tf.gather_nd(tensor, indices)
        outputs = tf.SparseTensor(indices, values, tf.shape(tensor, out_type=tf.int64))
        return collect_named_outputs(outputs_collections, sc.name, outputs)


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
