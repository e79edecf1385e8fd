"""The functions of ``tf.contrib.data`` that TensorFlow has dropped: each is a few words of ``tf.data`` today.

Most of them return a function from a dataset to a dataset, for ``dataset.apply``.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.compat.runtime import nest
from tpack.errors import ConfigError

Transformation: TypeAlias = Callable[[tf.data.Dataset], tf.data.Dataset]


def assert_element_shape(expected_shapes: Any) -> Transformation:
    """Check the shape of every element, and let the dataset know it.

    Args:
        expected_shapes: a nest of shapes like that of an element; what is None in them may be anything.

    Returns:
        A function for ``dataset.apply``. A known shape that differs is a ValueError; in a step, a differing shape
        is an InvalidArgumentError.
    """

    def check(*element: Any) -> Any:
        value = element if len(element) > 1 else element[0]
        return nest.map_structure_up_to(value, tf.ensure_shape, value, expected_shapes)

    return lambda dataset: dataset.map(check)


def batch_and_drop_remainder(batch_size: int) -> Transformation:
    """Batch, and leave out what does not fill a batch at the end."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size: int, padded_shapes: Any, padding_values: Any = None) -> Transformation:
    """Batch with padding, and leave out what does not fill a batch at the end."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


def sliding_window_batch(
    window_size: int, stride: int | None = None, window_shift: int | None = None, window_stride: int = 1
) -> Transformation:
    """Make a batch of each window that slides over the dataset; windows that are not full are left out.

    Args:
        window_size: how many elements a window has.
        stride: an older name of ``window_shift``.
        window_shift: by how many elements the window moves on; 1 if neither is given.
        window_stride: which elements a window takes: every one, every second one.

    Raises:
        ConfigError: Both ``stride`` and ``window_shift`` were given.
    """
    if stride is not None and window_shift is not None:
        raise ConfigError(f"got stride={stride} and window_shift={window_shift}, which are one: expected one of them")
    shift = next((value for value in (window_shift, stride) if value is not None), 1)

    def batch(*windows: Any) -> tf.data.Dataset:
        window = windows if len(windows) > 1 else windows[0]
        return tf.data.Dataset.zip(nest.map_structure(lambda part: part.batch(window_size), window))

    return lambda dataset: dataset.window(window_size, shift, window_stride, drop_remainder=True).flat_map(batch)


def sloppy_interleave(
    map_func: Callable[..., tf.data.Dataset], cycle_length: int, block_length: int = 1
) -> Transformation:
    """Interleave the datasets that a function makes, in whatever order they are ready."""
    return tf.data.experimental.parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


def reduce_dataset(dataset: tf.data.Dataset, reducer: tf.data.experimental.Reducer) -> Any:
    """Reduce a finite dataset to one value by the three functions of a ``tf.data.experimental.Reducer``."""
    start = reducer.init_func(tf.constant(0, tf.int64))
    return reducer.finalize_func(dataset.reduce(start, reducer.reduce_func))


def read_batch_features(
    file_pattern: Any,
    batch_size: int,
    features: dict[str, Any],
    reader: Any = tf.data.TFRecordDataset,
    reader_args: Any = None,
    randomize_input: bool = True,
    num_epochs: int | None = None,
    capacity: int = 10000,
) -> dict[str, Any]:
    """Return {feature: tensor} of the next batch of parsed ``tf.train.Example`` protos.

    ``reader`` makes a dataset of serialised protos from file names; ``capacity`` examples are shuffled among;
    ``num_epochs`` None reads for ever.
    """
    dataset = tf.data.experimental.make_batched_features_dataset(
        file_pattern,
        batch_size,
        features,
        reader=reader,
        reader_args=reader_args,
        num_epochs=num_epochs,
        shuffle=randomize_input,
        shuffle_buffer_size=capacity,
    )
    return tf.data.make_one_shot_iterator(dataset).get_next()
