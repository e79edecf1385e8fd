"""``slim.dataset`` and what gives its items: files, how to read and decode them, and the tensors of one example."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.slim.parallel_reader import parallel_read
from tpack.tf1.contrib.slim.tfexample_decoder import DataDecoder
from tpack.utils.validation import shown

__all__ = ["DataProvider", "Dataset", "DatasetDataProvider"]


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
        decoder: DataDecoder,
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
