"""The items of a data set."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib import slim


@pytest.fixture
def dataset(log_dir):
    """Five examples with a label."""
    path = str(log_dir / "a.records")
    with tf.python_io.TFRecordWriter(path) as writer:
        for number in range(5):
            made = tf.train.Example()
            made.features.feature["label"].int64_list.value.append(number)
            writer.write(made.SerializeToString())
    handlers = {"label": slim.tfexample_decoder.Tensor("label")}
    decoder = slim.tfexample_decoder.TFExampleDecoder({"label": tf.FixedLenFeature([], tf.int64)}, handlers)
    return slim.dataset.Dataset(path, tf.TFRecordReader, decoder, 5, {"label": "a number"}, num_classes=5)


def test_each_example_comes_once_in_an_epoch(graph, dataset):
    provider = slim.dataset_data_provider.DatasetDataProvider(
        dataset, num_epochs=1, common_queue_capacity=10, common_queue_min=2, seed=1
    )
    assert provider.list_items() == ["label", "record_key"]
    assert (provider.num_samples(), dataset.num_classes) == (5, 5)
    label, key = provider.get(["label", "record_key"])
    labels = []
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        with slim.queues.QueueRunners(session):
            for _ in range(5):
                number, where = session.run([label, key])
                assert b"a.records" in where
                labels.append(number)
    assert sorted(labels) == list(range(5))
    with pytest.raises(ConfigError, match="items are to be some of"):
        provider.get(["image"])


def test_what_cannot_be_is_refused(graph, dataset):
    with pytest.raises(ConfigError, match="another record_key"):
        slim.dataset_data_provider.DatasetDataProvider(dataset, record_key="label")
    with pytest.raises(AttributeError, match="no attribute 'size'; it has data_sources"):
        dataset.size  # noqa: B018 (reading it is the test)
