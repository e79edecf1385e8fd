"""Columns of ``tf.contrib.layers`` against numpy, and what of them is refused."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpack.tf1 as tf
from tpack.errors import ConfigError, WrongTypeError

layers = tf.contrib.layers
FEATURES = {
    "age": np.array([[15.0], [30.0], [70.0]], "float32"),
    "size": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "float32"),
    "job": np.array([["a"], ["c"], ["z"]]),
    "day": np.array([[0], [2], [1]]),
}


def features() -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in FEATURES.items()}


def run(session: Any, *fetches: Any) -> list[Any]:
    session.run([tf.global_variables_initializer(), tf.tables_initializer()])
    return session.run(list(fetches))


def test_inputs_are_the_columns_side_by_side(session8: Any, tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text("a\nb\nc\n")
    age = layers.real_valued_column("age", normalizer=lambda x: x / 10)
    job = layers.sparse_column_with_keys("job", ["a", "b", "c"])
    day = layers.sparse_column_with_integerized_feature("day", 3)
    columns = [
        age,
        layers.bucketized_column(layers.real_valued_column("age"), [20, 50]),
        layers.real_valued_column("size", 2),
        layers.one_hot_column(job),
        layers.embedding_column(day, 2, initializer=tf.ones_initializer()),
        layers.embedding_column(layers.sparse_column_with_vocabulary_file("job", str(words), 2), 1),
        *layers.shared_embedding_columns([day, layers.sparse_column_with_integerized_feature("day", 3)], 1)[:1],
    ]
    outs: dict[Any, Any] = {}
    inputs = layers.input_from_feature_columns(features(), columns, cols_to_outs=outs)
    got, *parts = run(session8, inputs, *(outs[column] for column in columns))
    numbers, buckets, sizes, one_hot, embedded = parts[:5]
    np.testing.assert_allclose(numbers, FEATURES["age"] / 10)
    np.testing.assert_array_equal(buckets, np.eye(3))
    np.testing.assert_array_equal(sizes, FEATURES["size"])
    np.testing.assert_array_equal(one_hot, [[1, 0, 0], [0, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(embedded, np.ones([3, 2]))
    assert got.shape == (3, 1 + 3 + 2 + 3 + 2 + 1 + 1)
    assert {v.op.name.split("/")[0] for v in tf.trainable_variables()} == {"input_from_feature_columns"}


def test_vectors_begin_with_the_spread_of_tensorflow_1(graph: Any) -> None:
    column = layers.embedding_column(layers.sparse_column_with_hash_bucket("job", 400), 3)
    assert column.initializer.get_config()["stddev"] == 1 / math.sqrt(400)
    assert (column.combiner, column.dimension, column.trainable) == ("mean", 3, True)


def test_a_linear_model_is_the_sum_of_its_columns(session8: Any) -> None:
    job, size = layers.sparse_column_with_keys("job", ["a", "b", "c"]), layers.real_valued_column("size", 2)
    hashed = layers.sparse_column_with_hash_bucket("job", 1e2)
    crossed = layers.crossed_column([hashed, layers.sparse_column_with_integerized_feature("day", 3)], 1e3)
    weighted = layers.weighted_sparse_column(layers.sparse_column_with_integerized_feature("day", 3), "weight")
    given = {**features(), "weight": tf.constant([[2.0], [3.0], [4.0]])}
    columns = [job, size, crossed, weighted]
    outputs, made, bias = layers.weighted_sum_from_feature_columns(given, columns, 2, scope="sum")
    assert set(made) == set(columns)
    assert {v.op.name.split("/")[0] for v in tf.trainable_variables()} == {"sum"}
    tables = [made[column][0] for column in columns]
    assert [table.shape.as_list() for table in tables] == [[3, 2], [2, 2], [1000, 2], [3, 2]]
    values = [np.arange(6.0).reshape(3, 2), np.array([[1.0, 2.0], [3.0, 4.0]]), np.full([1000, 2], 0.5)]
    values += [np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])]
    run(session8)
    for variable, value in zip([*tables, bias], [*values, [100.0, 200.0]], strict=True):
        variable.load(value, session8)
    rows = np.vstack([values[0][[0, 2]], [[0, 0]]]) + FEATURES["size"] @ values[1] + 0.5
    rows = rows + values[3][[0, 2, 1]] * [[2.0], [3.0], [4.0]] + [100, 200]
    np.testing.assert_allclose(session8.run(outputs), rows, rtol=1e-6)


def test_examples_are_parsed_for_columns(session8: Any) -> None:
    columns = [
        layers.real_valued_column("size", 2),
        layers.one_hot_column(layers.sparse_column_with_keys("job", ["a"])),
    ]
    spec = layers.create_feature_spec_for_parsing(columns)
    assert spec == {"size": tf.FixedLenFeature((2,), tf.float32), "job": tf.VarLenFeature(tf.string)}
    example = tf.train.Example()
    example.features.feature["size"].float_list.value.extend([1, 2])
    example.features.feature["job"].bytes_list.value.append(b"a")
    parsed = layers.parse_feature_columns_from_examples([example.SerializeToString()], columns)
    np.testing.assert_array_equal(run(session8, layers.input_from_feature_columns(parsed, columns))[0], [[1, 1, 2]])


REFUSED = {
    "combiner": (
        lambda: layers.sparse_column_with_hash_bucket("job", 10, "mean"),
        ConfigError,
        r"sparse_column_with_hash_bucket got combiner='mean'.*expected 'sum'.*sparse_combiner",
    ),
    "hashes": (
        lambda: layers.sparse_column_with_hash_bucket("job", 10, hash_keys=[[1, 2]]),
        ConfigError,
        "columns of several hashes are gone; use more buckets",
    ),
    "unknown count": (lambda: layers.real_valued_column("age", None), ConfigError, "got dimension=None for 'age'"),
    "text as numbers": (
        lambda: layers.sparse_column_with_integerized_feature("job", 3, dtype=tf.string),
        WrongTypeError,
        "for 'job': expected integers",
    ),
    "checkpoint": (
        lambda: layers.crossed_column(["job", "day"], 10, ckpt_to_load_from="model"),
        ConfigError,
        "expected None; use tf.train.init_from_checkpoint",
    ),
    "nothing": (lambda: layers.shared_embedding_columns([], 2), ConfigError, "got no columns"),
    "transformed": (
        lambda: layers.input_from_feature_columns({layers.real_valued_column("age"): 1}, []),
        WrongTypeError,
        "expected features by name",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_gone_is_refused(graph: Any, name: str) -> None:
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call()
