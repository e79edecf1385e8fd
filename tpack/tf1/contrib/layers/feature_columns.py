"""Feature columns of ``tf.contrib.layers``: those of ``tf.feature_column`` under other names and defaults.

Both kinds can be mixed. Differences from TensorFlow 1.15: variables have the names of ``tf.feature_column`` inside the
old scopes; an id beyond the buckets is an error instead of wrapped; and crosses use another, better hash.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.signatures import like, parameter
from tpack.utils.validation import check_count, check_function, shown

_columns = tf.feature_column


def real_valued_column(
    column_name: str,
    dimension: int | None = 1,
    default_value: Any = None,
    dtype: tf.DType = tf.float32,
    normalizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> Any:
    """Return a column of ``dimension`` numbers: ``tf.feature_column.numeric_column``.

    Args:
        column_name: the feature.
        dimension: how many numbers an example has.
        default_value: for a value missing in a parsed example; None to refuse that.
        dtype: of the numbers.
        normalizer: a function of the numbers.

    Raises:
        ConfigError: The number of numbers is not given.
    """
    if dimension is None:
        raise ConfigError(
            f"real_valued_column got dimension=None for {column_name!r}: expected the number of numbers, since columns "
            "of unknown length are gone"
        )
    if normalizer is not None:
        check_function("real_valued_column", "normalizer", normalizer)
    count = check_count("real_valued_column", "dimension", dimension)
    return _columns.numeric_column(column_name, (count,), default_value, dtype, normalizer)


def bucketized_column(source_column: Any, boundaries: Sequence[float]) -> Any:
    """Return a column of the range between boundaries that each number is in.

    Args:
        source_column: of `real_valued_column`.
        boundaries: in rising order.
    """
    return _columns.bucketized_column(source_column, list(boundaries))


def sparse_column_with_hash_bucket(
    column_name: str, hash_bucket_size: int, combiner: str = "sum", dtype: tf.DType = tf.string, hash_keys: Any = None
) -> Any:
    """Return a column of categories, numbered by a hash.

    Args:
        column_name: the feature.
        hash_bucket_size: the number of buckets.
        combiner: only ``"sum"``.
        dtype: of the feature, of text or integers.
        hash_keys: only None.

    Raises:
        ConfigError: Several hashes or another combiner are given.
    """
    _check_sum("sparse_column_with_hash_bucket", combiner)
    if hash_keys is not None:
        raise ConfigError(
            "sparse_column_with_hash_bucket got hash_keys: expected None, since columns of several hashes are gone; "
            "use more buckets"
        )
    return _columns.categorical_column_with_hash_bucket(column_name, int(hash_bucket_size), dtype)


def sparse_column_with_integerized_feature(
    column_name: str, bucket_size: int, combiner: str = "sum", dtype: tf.DType = tf.int64
) -> Any:
    """Return a column of categories that are numbers from 0.

    Args:
        column_name: the feature.
        bucket_size: the number of categories; a number beyond is an error at run time.
        combiner: only ``"sum"``.
        dtype: of the feature, an integer.

    Raises:
        ConfigError: Another combiner is given.
        WrongTypeError: The dtype is not of integers.
    """
    _check_sum("sparse_column_with_integerized_feature", combiner)
    if not tf.as_dtype(dtype).is_integer:
        raise WrongTypeError(
            f"sparse_column_with_integerized_feature got dtype={shown(dtype)} for {column_name!r}: expected integers"
        )
    return _columns.categorical_column_with_identity(column_name, int(bucket_size))


def sparse_column_with_keys(
    column_name: str, keys: Sequence[Any], default_value: int = -1, combiner: str = "sum", dtype: tf.DType = tf.string
) -> Any:
    """Return a column of categories from a list.

    Args:
        column_name: the feature.
        keys: the list.
        default_value: the number of a category outside the list; -1 leaves it out.
        combiner: only ``"sum"``.
        dtype: of the feature.

    Raises:
        ConfigError: Another combiner is given.
    """
    _check_sum("sparse_column_with_keys", combiner)
    return _columns.categorical_column_with_vocabulary_list(column_name, list(keys), dtype, default_value)


def sparse_column_with_vocabulary_file(
    column_name: str,
    vocabulary_file: str,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    combiner: str = "sum",
    dtype: tf.DType = tf.string,
) -> Any:
    """Return a column of categories that are lines of a file.

    Args:
        column_name: the feature.
        vocabulary_file: the path.
        num_oov_buckets: the number of buckets for categories outside the file.
        vocab_size: the number of lines to use; None for all.
        default_value: the number of a category outside the file, without buckets; -1 leaves it out.
        combiner: only ``"sum"``.
        dtype: of the feature.

    Raises:
        ConfigError: Another combiner is given.
    """
    _check_sum("sparse_column_with_vocabulary_file", combiner)
    default = None if num_oov_buckets else default_value
    return _columns.categorical_column_with_vocabulary_file(
        column_name, vocabulary_file, vocab_size, num_oov_buckets, default, dtype
    )


def weighted_sparse_column(sparse_id_column: Any, weight_column_name: str, dtype: tf.DType = tf.float32) -> Any:
    """Return a column of categories with weights from the feature ``weight_column_name``."""
    return _columns.weighted_categorical_column(sparse_id_column, weight_column_name, dtype)


def crossed_column(
    columns: Iterable[Any],
    hash_bucket_size: int,
    combiner: str = "sum",
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    hash_key: int | None = None,
) -> Any:
    """Return a column of all combinations of categories, numbered by a hash.

    Args:
        columns: the columns of categories; of a hashing one, the values themselves are combined.
        hash_bucket_size: the number of buckets.
        combiner: only ``"sum"``.
        ckpt_to_load_from: only None.
        tensor_name_in_ckpt: only None.
        hash_key: of the hash.

    Raises:
        ConfigError: A checkpoint or another combiner is given.
    """
    _check_sum("crossed_column", combiner)
    if (ckpt_to_load_from, tensor_name_in_ckpt) != (None, None):
        raise ConfigError("crossed_column got a checkpoint: expected None; use tf.train.init_from_checkpoint")
    crossed = [
        column.key if {"key", "hash_bucket_size"} <= set(getattr(column, "_fields", ())) else column
        for column in columns
    ]
    return _columns.crossed_column(crossed, int(hash_bucket_size), hash_key)


def one_hot_column(sparse_id_column: Any) -> Any:
    """Return a column that counts how often an example has each category."""
    return _columns.indicator_column(sparse_id_column)


def embedding_column(
    sparse_id_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Callable[..., tf.Tensor] | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> Any:
    """Return a column of a vector for each category.

    Args:
        sparse_id_column: the column of categories.
        dimension: the length of a vector.
        combiner: of the vectors of an example: ``"mean"``, ``"sqrtn"`` or ``"sum"``.
        initializer: of the vectors; None for truncated normal ones with a deviation of 1 / sqrt(number of categories).
        ckpt_to_load_from: a checkpoint that has the vectors.
        tensor_name_in_ckpt: their name in it.
        max_norm: the largest length of a vector; None for any.
        trainable: whether they are trained.
    """
    initializer = initializer or _initializer_for(sparse_id_column)
    return _columns.embedding_column(
        sparse_id_column, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable
    )


@like(
    embedding_column,
    without="sparse_id_column",
    after={
        "": {"sparse_id_columns": parameter("sparse_id_columns", Sequence[Any])},
        "combiner": {"shared_embedding_name": parameter("shared_embedding_name", str | None, None)},
    },
)
def shared_embedding_columns(sparse_id_columns: Sequence[Any], initializer: Any, **given: Any) -> list[Any]:
    """Return columns that share the vectors of their categories; arguments as for `embedding_column`.

    Args:
        sparse_id_columns: the columns, of equal numbers of categories.
        initializer: see `embedding_column`.
        **given: see there; ``shared_embedding_name`` of the vectors, None for one made of the columns' names.

    Raises:
        ConfigError: There are no columns.
    """
    if not sparse_id_columns:
        raise ConfigError("shared_embedding_columns got no columns: expected at least one")
    initializer = initializer or _initializer_for(sparse_id_columns[0])
    name = given.pop("shared_embedding_name")
    return _columns.shared_embedding_columns(
        list(sparse_id_columns), initializer=initializer, shared_embedding_collection_name=name, **given
    )


def create_feature_spec_for_parsing(feature_columns: Iterable[Any]) -> dict[str, Any]:
    """Return the features of columns by name, for ``tf.parse_example``."""
    return _columns.make_parse_example_spec(list(feature_columns))


def parse_feature_columns_from_examples(
    serialized: Any, feature_columns: Iterable[Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """Parse examples for columns, and return their features by name.

    Args:
        serialized: the examples, [B] of text.
        feature_columns: the columns.
        name: of the operation.
        example_names: the examples' own names, [B], for error messages.
    """
    return tf.parse_example(serialized, create_feature_spec_for_parsing(feature_columns), name, example_names)


def input_from_feature_columns(
    columns_to_tensors: Mapping[str, Any],
    feature_columns: Iterable[Any],
    weight_collections: Sequence[str] | None = None,
    trainable: bool = True,
    scope: Any = None,
    cols_to_outs: dict[Any, tf.Tensor] | None = None,
) -> tf.Tensor:
    """Return the values of columns side by side, sorted by the columns' names.

    Args:
        columns_to_tensors: the features by name.
        feature_columns: real-valued, bucketized, one-hot and embedding columns.
        weight_collections: those of the variables, besides GLOBAL_VARIABLES.
        trainable: whether they are trained.
        scope: the variable scope; None for ``input_from_feature_columns``.
        cols_to_outs: a dict to fill with the output of each column.

    Shapes:
        [B, the sum of the columns' sizes].

    Raises:
        WrongTypeError: A feature is not given by name.
    """
    features = _named("input_from_feature_columns", columns_to_tensors)
    with tf.variable_scope(scope, default_name="input_from_feature_columns", values=features.values()):
        return _columns.input_layer(
            features, list(feature_columns), weight_collections, trainable, cols_to_output_tensors=cols_to_outs
        )


def weighted_sum_from_feature_columns(
    columns_to_tensors: Mapping[str, Any],
    feature_columns: Iterable[Any],
    num_outputs: int,
    weight_collections: Sequence[str] | None = None,
    trainable: bool = True,
    scope: Any = None,
) -> tuple[tf.Tensor, dict[Any, Any], tf.Variable]:
    """Return a linear model of columns: its outputs, its variables by column, and its bias.

    Args:
        columns_to_tensors: the features by name.
        feature_columns: columns of numbers and of categories; none of embeddings.
        num_outputs: the number of outputs.
        weight_collections: those of the variables, besides GLOBAL_VARIABLES.
        trainable: whether they are trained.
        scope: the variable scope; None for ``weighted_sum_from_feature_columns``.

    Shapes:
        The outputs: [B, num_outputs]; the bias: [num_outputs].

    Raises:
        WrongTypeError: A feature is not given by name.
    """
    features = _named("weighted_sum_from_feature_columns", columns_to_tensors)
    made: dict[Any, Any] = {}
    with tf.variable_scope(scope, default_name="weighted_sum_from_feature_columns", values=features.values()):
        outputs = _columns.linear_model(
            features,
            list(feature_columns),
            units=num_outputs,
            weight_collections=weight_collections,
            trainable=trainable,
            cols_to_vars=made,
        )
    (bias,) = made.pop("bias")
    return outputs, made, bias


def _check_sum(owner: str, combiner: str) -> None:
    if combiner != "sum":
        raise ConfigError(
            f"{owner} got combiner={shown(combiner)}: expected 'sum', since columns of tf.feature_column have none; "
            "use tf.feature_column.linear_model(..., sparse_combiner=...) for all columns"
        )


def _initializer_for(column: Any) -> Callable[..., tf.Tensor]:
    return tf.truncated_normal_initializer(stddev=1 / math.sqrt(column.num_buckets))


def _named(owner: str, features: Mapping[Any, Any]) -> dict[str, Any]:
    others = [key for key in features if not isinstance(key, str)]
    if others:
        raise WrongTypeError(f"{owner} got a feature by {shown(others[0])}: expected features by name")
    return dict(features)
