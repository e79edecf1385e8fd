"""Records that come through queues."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.slim import parallel_reader as reader


@pytest.fixture
def files(log_dir):
    """Three files with four records each."""
    for number in range(3):
        with tf.python_io.TFRecordWriter(str(log_dir / f"{number}.records")) as writer:
            for record in range(4):
                writer.write(b"%d" % (number * 4 + record))
    return log_dir


def read(tensor, num_times=None):
    """Return what comes until the data end, or so many of it."""
    found = []
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        with reader.QueueRunners(session):
            try:
                while len(found) != num_times:
                    found.append(session.run(tensor))
            except tf.errors.OutOfRangeError:
                pass
    return found


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_record_is_read_by_several_readers(graph, files, shuffle):
    options = {"num_epochs": 1, "num_readers": 2, "shuffle": shuffle, "capacity": 20, "min_after_dequeue": 5}
    _, value = reader.parallel_read(str(files / "*.records"), tf.TFRecordReader, **options)
    assert sorted(map(int, read(value))) == list(range(12))


def test_one_reader_reads_in_order(graph, files):
    _, value = reader.single_pass_read([str(files / f"{number}.records") for number in (2, 0)], tf.TFRecordReader)
    assert list(map(int, read(value))) == [8, 9, 10, 11, 0, 1, 2, 3]


def test_several_records_at_once(graph, files):
    queue = tf.FIFOQueue(20, [tf.string, tf.string], [[], []])
    names = tf.train.string_input_producer([str(files / "0.records")], num_epochs=1)
    readers = reader.ParallelReader(tf.TFRecordReader, queue, 1)
    _, values = readers.read_up_to(names, 4)
    counts = [readers.num_records_produced(), readers.num_work_units_completed()]
    assert (readers.num_readers, readers.common_queue) == (1, queue)
    assert [sorted(map(int, found)) for found in read(values, 1)] == [[0, 1, 2, 3]]
    assert all(count.shape.rank == 0 for count in counts)


@pytest.mark.parametrize("dynamic_pad", [True, False])
def test_batches_are_made_before_they_are_asked_for(graph, dynamic_pad):
    number = tf.train.limit_epochs(tf.constant([1, 2]), num_epochs=3)
    by_name = reader.prefetch_queue({"b": number, "a": number + 1}, dynamic_pad=dynamic_pad).dequeue()
    found = read(by_name)
    assert [sorted(each) for each in found] == [["a", "b"]] * 3
    assert [each["a"].tolist() for each in found] == [[2, 3]] * 3
    listed = reader.prefetch_queue([tf.constant(1), tf.constant(2)]).dequeue()
    assert read(listed, 2) == [[1, 2], [1, 2]]


def test_files(files):
    assert reader.get_data_files(["a", ["b"]]) == ["a", "b"]
    with pytest.raises(ConfigError, match="no files are found"):
        reader.get_data_files(str(files / "*.nothing"))
    with tf.Graph().as_default(), pytest.raises(ConfigError, match="got a queue of .*: expected two strings"):
        reader.ParallelReader(tf.TFRecordReader, tf.FIFOQueue(1, [tf.string]))
