"""Tables of ``tf.contrib.lookup``."""

import pytest

import tpack.tf1 as tf

lookup = tf.contrib.lookup
WORDS = ["a", "b", "c"]


@pytest.fixture(autouse=True)
def _in_a_graph(graph):
    return graph


def run(*fetches):
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        return [value.tolist() for value in session.run(list(fetches))]


def test_places_and_texts():
    places = lookup.string_to_index(tf.constant(["b", "x"]), tf.constant(WORDS), default_value=7)
    texts = lookup.index_to_string(tf.constant([2, 5], tf.int64), tf.constant(WORDS))
    spread = lookup.string_to_index_table_from_tensor(tf.constant(WORDS), num_oov_buckets=1).lookup(tf.constant(["x"]))
    table = lookup.index_table_from_tensor(mapping=tf.constant([5, 6], tf.int64), dtype=tf.int64)
    named = table.lookup(tf.constant([6, 7], tf.int64))
    assert run(places, texts, spread, named) == [[1, 7], [b"c", b"UNK"], [3], [1, -1]]


def test_lines_of_a_file(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("a\nb\nc\n")
    table = lookup.string_to_index_table_from_file(str(path), num_oov_buckets=0, vocab_size=2, default_value=-3)
    back = lookup.index_to_string_table_from_file(str(path))
    assert run(table.lookup(tf.constant(["b", "c"])), back.lookup(tf.constant([2], tf.int64))) == [[1, -3], [b"c"]]


def test_a_table_of_pairs_and_one_that_changes():
    pairs = lookup.KeyValueTensorInitializer(WORDS, [10, 20, 30], value_dtype=tf.int64)
    table = lookup.HashTable(pairs, -1, shared_name="pairs")
    assert table.init is table.initializer
    assert table.resource_handle.op.get_attr("shared_name") == b"pairs"
    changing = lookup.MutableHashTable(tf.string, tf.int64, -1)
    with tf.control_dependencies([changing.insert(tf.constant(["x"]), tf.constant([5], tf.int64))]):
        found = changing.lookup(tf.constant(["x", "y"]))
    assert run(table.lookup(tf.constant(["c", "x"])), found, table.size()) == [[30, -1], [5, -1], 3]
    other = lookup.HashTable(lookup.KeyValueTensorInitializer(WORDS, WORDS), "?")
    assert other.resource_handle.op.get_attr("shared_name") != b"pairs"
