"""``tf.contrib.lookup``: tables that give a value for a key, as resources."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat.runtime import lookup_ops
from tpack.tf1.name_table import look_up
from tpack.tf1.signatures import like, parameter

_SAME = (
    "FastHashSpec HasherSpec IdTableWithHashBuckets InitializableLookupTableBase KeyValueTensorInitializer "
    "LookupInterface MutableHashTable StrongHashSpec TableInitializerBase TextFileIdTableInitializer TextFileIndex "
    "TextFileInitializer TextFileStringTableInitializer index_table_from_file index_to_string_table_from_file"
)
_FAST = lookup_ops.FastHashSpec
_TABLES = (
    "HashTable index_table_from_tensor index_to_string index_to_string_table_from_tensor string_to_index "
    "string_to_index_table_from_file string_to_index_table_from_tensor"
)

_OF_TENSORFLOW = [f"{name}=lookup_ops.{name}" for name in _SAME.split()]

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {"tpack.compat.runtime": " ".join([*_OF_TENSORFLOW, "MutableDenseHashTable=lookup_ops.DenseHashTable"])},
    own=_TABLES.split(),
)


class HashTable(tf.lookup.StaticHashTable):
    """A table whose keys and values are given once, and that is filled by ``tf.tables_initializer()``.

    Args:
        initializer: gives the keys and values.
        default_value: the value of any other key.
        shared_name: tables of this name are one table in all sessions of a cluster.
    """

    def __init__(self, initializer: Any, default_value: Any, shared_name: str | None = None, name: str | None = None):
        self._wanted_shared_name = shared_name
        super().__init__(initializer, default_value, name=name)

    def _create_resource(self) -> tf.Tensor:
        if self._wanted_shared_name is not None:
            self._shared_name = self._wanted_shared_name
        return super()._create_resource()

    @property
    def init(self) -> tf.Operation:
        """The initializer of the table; an older name of ``initializer``."""
        return self.initializer


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = _FAST,
    dtype: tf.DType = tf.string,
    name: str | None = None,
) -> Any:
    """Make a table that gives the place of each entry of a list.

    Args:
        mapping: the entries, each once.
        num_oov_buckets: over how many further places others are spread.
        default_value: the place of others if there are no such places.
        hasher_spec: how they are spread.
        dtype: of the keys.
        name: of the operations.
    """
    return lookup_ops.index_table_from_tensor(mapping, num_oov_buckets, default_value, hasher_spec, dtype, name)


@like(index_table_from_tensor, without="dtype")
def string_to_index_table_from_tensor(**given: Any) -> Any:
    """Make a table that gives the place of each text of a list; arguments as for `index_table_from_tensor`."""
    return index_table_from_tensor(**given)


@like(
    index_table_from_tensor,
    without="mapping dtype",
    after={"": {"vocabulary_file": None}, "num_oov_buckets": {"vocab_size": parameter("vocab_size", int | None, None)}},
)
def string_to_index_table_from_file(**given: Any) -> Any:
    """Make a table that gives the number of each of the first ``vocab_size`` lines of a file, or of all.

    The other arguments are those of `index_table_from_tensor`.
    """
    return lookup_ops.index_table_from_file(**given)


def index_to_string_table_from_tensor(mapping: Any, default_value: str = "UNK", name: str | None = None) -> Any:
    """Make a table that gives the text at each place of a list, and another for places outside."""
    return lookup_ops.index_to_string_table_from_tensor(mapping, default_value, name)


def string_to_index(tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None) -> tf.Tensor:
    """Return the place of each text in a list; ``tf.tables_initializer()`` must have run."""
    return index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)


def index_to_string(tensor: Any, mapping: Any, default_value: str = "UNK", name: str | None = None) -> tf.Tensor:
    """Return the text at each place of a list; ``tf.tables_initializer()`` must have run."""
    return index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)
