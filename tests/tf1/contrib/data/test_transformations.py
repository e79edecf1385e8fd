"""What ``tf.contrib.data`` had and TensorFlow has dropped; the expected values are those of TensorFlow 1.15."""

import numpy as np
import pytest

import tpack.tf1 as tf
from tpack.errors import ConfigError

contrib = tf.contrib.data


@pytest.fixture(autouse=True)
def _in_a_graph(graph):
    return graph


def values(dataset):
    """Return all elements."""
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    found = []
    with tf.Session() as session:
        while True:
            try:
                found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                return found


def numbers(count, start=0):
    return tf.data.Dataset.range(start, start + count)


def assert_equal(found, expected):
    assert [np.asarray(value).tolist() for value in found] == expected


def test_windows_slide():
    found = values(numbers(7).apply(contrib.sliding_window_batch(3)))
    assert_equal(found, [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]])
    found = values(numbers(7).apply(contrib.sliding_window_batch(3, window_shift=2, window_stride=2)))
    assert_equal(found, [[0, 2, 4], [2, 4, 6]])
    pairs = tf.data.Dataset.zip((numbers(5), numbers(5, start=5)))
    assert_equal(values(pairs.apply(contrib.sliding_window_batch(2, stride=2))), [[[0, 1], [5, 6]], [[2, 3], [7, 8]]])
    with pytest.raises(ConfigError, match="got stride=1 and window_shift=2, which are one"):
        contrib.sliding_window_batch(2, 1, 2)


def test_batches_that_are_not_full_are_left_out():
    assert_equal(values(numbers(5).apply(contrib.batch_and_drop_remainder(2))), [[0, 1], [2, 3]])
    growing = numbers(5).map(lambda x: tf.fill([x], x))
    batched = growing.apply(contrib.padded_batch_and_drop_remainder(2, [None], np.int64(9)))
    assert_equal(values(batched), [[[9], [1]], [[2, 2, 9], [3, 3, 3]]])
    assert tf.data.get_output_shapes(batched).as_list() == [2, None]


def test_shapes_are_checked():
    growing = numbers(3).map(lambda x: tf.fill([x + 1], x))
    one = tf.TensorShape([1])
    assert tf.data.get_output_shapes(growing.apply(contrib.assert_element_shape(one))).as_list() == [1]
    both = tf.data.Dataset.zip((numbers(3), growing)).apply(contrib.assert_element_shape((tf.TensorShape([]), one)))
    assert [shape.as_list() for shape in tf.data.get_output_shapes(both)] == [[], [1]]
    named = growing.map(lambda x: {"x": x}).apply(contrib.assert_element_shape({"x": tf.TensorShape([None])}))
    assert_equal([value["x"] for value in values(named)], [[0], [1, 1], [2, 2, 2]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="shape"):
        values(growing.apply(contrib.assert_element_shape(one)))
    with pytest.raises(ValueError, match="hape"):
        numbers(3).apply(contrib.assert_element_shape(one))


def test_datasets_are_interleaved():
    interleaved = numbers(3).apply(contrib.sloppy_interleave(lambda x: tf.data.Dataset.from_tensors(x).repeat(2), 3))
    assert sorted(values(interleaved)) == [0, 0, 1, 1, 2, 2]


def test_a_dataset_is_reduced():
    reducer = contrib.Reducer(lambda key: key, lambda state, value: state + value, lambda state: state * 2)
    with tf.Session() as session:
        assert session.run(contrib.reduce_dataset(numbers(5), reducer)) == 20


def test_features_are_read(tmp_path):
    path = str(tmp_path / "it.tfrecords")
    with tf.python_io.TFRecordWriter(path) as writer:
        for value in range(4):
            feature = {"x": tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    features = {"x": tf.FixedLenFeature([], tf.int64)}
    batch = contrib.read_batch_features(path, 2, features, randomize_input=False, num_epochs=1)
    with tf.Session() as session:
        assert [session.run(batch)["x"].tolist() for _ in range(2)] == [[0, 1], [2, 3]]


def test_what_is_in_tensorflow_is_tensorflow_s():
    doubled = contrib.map_and_batch(lambda x: x * 2, batch_size=2, drop_remainder=True)
    assert_equal(values(numbers(5).apply(contrib.shuffle_and_repeat(1, 2)).apply(doubled))[:2], [[0, 2], [4, 6]])
    assert contrib.map_and_batch is tf.data.experimental.map_and_batch
    assert all(getattr(contrib, name) is not None for name in contrib.__all__)
