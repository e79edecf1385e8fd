"""``tf.contrib.feature_column``: columns of sequences, which ``tf.feature_column`` has."""

from tpack.tf1.name_table import look_up

_NAMES = (
    "sequence_categorical_column_with_hash_bucket sequence_categorical_column_with_identity "
    "sequence_categorical_column_with_vocabulary_file sequence_categorical_column_with_vocabulary_list "
    "sequence_numeric_column"
)

__getattr__, __dir__, __all__ = look_up(__name__, {name: f"tf.feature_column.{name}" for name in _NAMES.split()})
