"""``slim.dataset`` and what gives its items: files, how to read and decode them, and the tensors of one example.

Several readers read records of several files beside the steps, through queues.
"""

import glob
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.utils.validation import shown

__all__ = [
    "DataProvider",
    "Dataset",
    "DatasetDataProvider",
    "ParallelReader",
    "QueueRunners",
    "get_data_files",
    "parallel_read",
    "prefetch_queue",
    "single_pass_read",
]


class Dataset:
    """Describes a data set.

    Args:
        data_sources: files, or patterns of them.
        reader: makes a reader, such as ``tf.TFRecordReader``.
        decoder: a `DataDecoder` of what is read.
        num_samples: how many examples there are.
        items_to_descriptions: what each item is, in words.
        **kwargs: further attributes, such as ``num_classes``.
    """

    def __init__(
        self,
        data_sources: Any,
        reader: Callable[..., Any],
        decoder: Any,
        num_samples: int | None,
        items_to_descriptions: Mapping[str, str],
        **kwargs: Any,
    ) -> None:
        given = {"reader": reader, "decoder": decoder, "num_samples": num_samples}
        descriptions = {"items_to_descriptions": items_to_descriptions}
        self.__dict__.update(kwargs, data_sources=data_sources, **given, **descriptions)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"this Dataset has no attribute {name!r}; it has {', '.join(sorted(vars(self)))}")


class DataProvider:
    """Gives tensors by the names of items.

    Args:
        items_to_tensors: the tensors.
        num_samples: how many examples there are.
    """

    def __init__(self, items_to_tensors: Mapping[str, tf.Tensor], num_samples: int | None) -> None:
        self._items_to_tensors, self._num_samples = dict(items_to_tensors), num_samples

    def get(self, items: Sequence[str]) -> list[tf.Tensor]:
        """Return the tensors of some items; raise ConfigError if there is no such item."""
        for item in items:
            if item not in self._items_to_tensors:
                raise ConfigError(f"items are to be some of {', '.join(self.list_items())}, got {shown(item)}")
        return [self._items_to_tensors[item] for item in items]

    def list_items(self) -> list[str]:
        """Return the names of the items."""
        return sorted(self._items_to_tensors)

    def num_samples(self) -> int | None:
        """Return how many examples there are."""
        return self._num_samples


class DatasetDataProvider(DataProvider):
    """Gives the items of a data set, one example after the other.

    Args:
        dataset: the data set.
        num_readers: how many readers there are.
        reader_kwargs: arguments of each.
        shuffle: files and examples.
        num_epochs: how often; None for ever.
        common_queue_capacity: of the queue that the readers fill.
        common_queue_min: how many examples are kept to choose from.
        record_key: the item with the key of the record.
        seed: of the order.
        scope: the name scope.

    Raises:
        ConfigError: The data set has an item of the name ``record_key``.
    """

    def __init__(
        self,
        dataset: Dataset,
        num_readers: int = 1,
        reader_kwargs: Mapping[str, Any] | None = None,
        shuffle: bool = True,
        num_epochs: int | None = None,
        common_queue_capacity: int = 256,
        common_queue_min: int = 128,
        record_key: str = "record_key",
        seed: int | None = None,
        scope: str | None = None,
    ) -> None:
        key, data = parallel_read(
            dataset.data_sources,
            dataset.reader,
            num_epochs,
            num_readers,
            reader_kwargs,
            shuffle,
            capacity=common_queue_capacity,
            min_after_dequeue=common_queue_min,
            seed=seed,
            scope=scope,
        )
        items = dataset.decoder.list_items()
        if record_key in items:
            raise ConfigError(f"the item {record_key} is there already: expected another record_key")
        tensors = dataset.decoder.decode(data, items)
        super().__init__({**dict(zip(items, tensors, strict=True)), record_key: key}, dataset.num_samples)


_STOP_GRACE_SECS = 30


class ParallelReader(tf.ReaderBase):
    """Several readers that fill one queue.

    Args:
        reader_class: makes a reader, such as ``tf.TFRecordReader``.
        common_queue: of keys and values.
        num_readers: how many.
        reader_kwargs: arguments of each.

    Raises:
        ConfigError: The queue is one of something else.
    """

    def __init__(
        self,
        reader_class: Callable[..., Any],
        common_queue: tf.QueueBase,
        num_readers: int = 4,
        reader_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if list(common_queue.dtypes) != [tf.string, tf.string]:
            raise ConfigError(f"ParallelReader got a queue of {common_queue.dtypes}: expected two strings")
        self._readers = [reader_class(**(reader_kwargs or {})) for _ in range(num_readers)]
        self._common_queue = common_queue

    @property
    def num_readers(self) -> int:
        """The number of readers."""
        return len(self._readers)

    @property
    def common_queue(self) -> tf.QueueBase:
        """The queue."""
        return self._common_queue

    def read(self, queue: tf.QueueBase, name: str | None = None) -> list[tf.Tensor]:
        """Return the next key and value; the readers take the names of files from a queue.

        Creates:
            A queue runner of the readers in QUEUE_RUNNERS.
        """
        with tf.name_scope(name, "parallel_read"):
            enqueues = [self._common_queue.enqueue(reader.read(queue)) for reader in self._readers]
            tf.train.add_queue_runner(tf.train.QueueRunner(self._common_queue, enqueues))
            return self._common_queue.dequeue()

    def read_up_to(self, queue: tf.QueueBase, num_records: int, name: str | None = None) -> list[tf.Tensor]:
        """Return up to so many keys and values."""
        with tf.name_scope(name, "parallel_read_up_to"):
            enqueues = [self._common_queue.enqueue_many(r.read_up_to(queue, num_records)) for r in self._readers]
            tf.train.add_queue_runner(tf.train.QueueRunner(self._common_queue, enqueues))
            return self._common_queue.dequeue_up_to(num_records)

    def num_records_produced(self, name: str | None = None) -> tf.Tensor:
        """Return how many records the readers have read."""
        return tf.add_n([reader.num_records_produced() for reader in self._readers], name=name)

    def num_work_units_completed(self, name: str | None = None) -> tf.Tensor:
        """Return how many files the readers have finished."""
        return tf.add_n([reader.num_work_units_completed() for reader in self._readers], name=name)


def parallel_read(
    data_sources: Any,
    reader_class: Callable[..., Any],
    num_epochs: int | None = None,
    num_readers: int = 4,
    reader_kwargs: Mapping[str, Any] | None = None,
    shuffle: bool = True,
    dtypes: Sequence[tf.DType] | None = None,
    capacity: int = 256,
    min_after_dequeue: int = 128,
    seed: int | None = None,
    scope: str | None = None,
) -> list[tf.Tensor]:
    """Return the next key and value of some files, read by several readers.

    Args:
        data_sources: files, or patterns of them.
        reader_class: makes a reader, such as ``tf.TFRecordReader``.
        num_epochs: how often; None for ever.
        num_readers: how many.
        reader_kwargs: arguments of each.
        shuffle: files and records.
        dtypes: of key and value; strings by default.
        capacity: of the queue.
        min_after_dequeue: how many records are kept to choose from.
        seed: of the order.
        scope: the name scope, ``parallel_read`` by default.

    Creates:
        Queue runners in QUEUE_RUNNERS.
    """
    data_files = get_data_files(data_sources)
    with tf.name_scope(scope, "parallel_read"):
        names = tf.train.string_input_producer(
            data_files, num_epochs=num_epochs, shuffle=shuffle, seed=seed, name="filenames"
        )
        dtypes = list(dtypes or [tf.string, tf.string])
        if shuffle:
            queue = tf.RandomShuffleQueue(capacity, min_after_dequeue, dtypes, seed=seed, name="common_queue")
        else:
            queue = tf.FIFOQueue(capacity, dtypes, name="common_queue")
        tf.summary.scalar("fraction_full", tf.cast(queue.size(), tf.float32) / capacity)
        return ParallelReader(reader_class, queue, min(num_readers, len(data_files)), reader_kwargs).read(names)


def single_pass_read(
    data_sources: Any,
    reader_class: Callable[..., Any],
    reader_kwargs: Mapping[str, Any] | None = None,
    scope: str | None = None,
) -> list[tf.Tensor]:
    """Return the next key and value of some files, each of which is read once, in order, by one reader."""
    data_files = get_data_files(data_sources)
    with tf.name_scope(scope, "single_pass_read"):
        names = tf.train.string_input_producer(data_files, num_epochs=1, shuffle=False, capacity=1, name="filenames")
        return reader_class(**(reader_kwargs or {})).read(names)


def get_data_files(data_sources: Any) -> list[str]:
    """Return the files of patterns, or of lists of them; raise ConfigError if there are none."""
    if isinstance(data_sources, list | tuple):
        files = [file for source in data_sources for file in get_data_files(source)]
    elif any(sign in data_sources for sign in "*?["):
        files = sorted(tf.gfile.Glob(data_sources)) or sorted(glob.glob(data_sources))
    else:
        files = [data_sources]
    if not files:
        raise ConfigError(f"no files are found for {shown(data_sources)}")
    return files


def prefetch_queue(
    tensors: Any,
    capacity: int = 8,
    num_threads: int = 1,
    dynamic_pad: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> tf.QueueBase:
    """Return a queue of batches that are made beside the steps.

    Args:
        tensors: a list or dict of tensors, which one ``dequeue`` gives back.
        capacity: how many batches.
        num_threads: that make them.
        dynamic_pad: whether sizes may differ from batch to batch, which has to be said for queues of this kind.
        shared_name: of the queue.
        name: the name scope, ``prefetch_queue`` by default.

    Creates:
        A queue runner in QUEUE_RUNNERS.
    """
    is_dict = isinstance(tensors, Mapping)
    names = sorted(tensors) if is_dict else None
    listed = (
        [tf.convert_to_tensor(tensors[key]) for key in names] if names else list(map(tf.convert_to_tensor, tensors))
    )
    with tf.name_scope(name, "prefetch_queue", listed):
        kind = tf.PaddingFIFOQueue if dynamic_pad else tf.FIFOQueue
        options = {"names": names, "shared_name": shared_name}
        queue = kind(capacity, [each.dtype for each in listed], [each.shape for each in listed], **options)
        enqueue = queue.enqueue(dict(zip(names, listed, strict=True)) if names else listed)
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue] * num_threads))
        tf.summary.scalar("fraction_full", tf.cast(queue.size(), tf.float32) / capacity)
        return queue


@contextmanager
def QueueRunners(session: tf.Session) -> Iterator[list[Any]]:  # noqa: N802
    """Run the queue runners of a session's graph in a block."""
    coordinator = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coordinator, daemon=True)
    try:
        yield threads
    finally:
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=_STOP_GRACE_SECS)
