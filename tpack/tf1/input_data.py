"""Handwritten digits as the tutorials of TensorFlow 1 read them: ``tensorflow.examples.tutorials.mnist.input_data``.

`read_data_sets` has the three parts of MNIST, and each gives batches by `DataSet.next_batch`. The files are those of
`tpack.dataflow.dataset.Mnist`, which a script of today uses; nothing is downloaded.
"""

import os
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.dataflow.dataset.mnist import Mnist
from tpack.errors import ConfigError
from tpack.utils.rng import get_rng
from tpack.utils.validation import check_arguments, check_count, shown

__all__ = ["DataSet", "Datasets", "dense_to_one_hot", "read_data_sets"]

_SIDE, _CLASSES = 28, 10
_NUM_FAKES = 10000
SOURCE_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"
"""The default of an argument that scripts give by its place; nothing is downloaded from there."""


@check_arguments
class DataSet:
    """Images with labels, in memory, out of which batches are taken.

    Args:
        images: bytes, of shape (N, H, W, 1).
        labels: of shape (N,), or (N, classes) with one 1 in each row.
        fake_data: leave both alone, and give 10000 times an image of ones and the label 0.
        one_hot: what the labels of fake data look like.
        dtype: ``tf.float32``, for numbers from 0 to 1, or ``tf.uint8``, for bytes.
        reshape: make rows of the images, of shape (N, H * W).
        seed: of the order; None for that of `tpack.fix_rng_seed`, or another one in each run.

    Raises:
        ConfigError: There is another number of labels than of images, images to be made rows have another shape, or
            the dtype is another one.
    """

    def __init__(
        self,
        images: Any,
        labels: Any,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = tf.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        if tf.as_dtype(dtype) not in (tf.uint8, tf.float32):
            raise ConfigError(f"DataSet got dtype={shown(dtype)}: expected tf.uint8 or tf.float32")
        self._rng = get_rng(self) if seed is None else np.random.RandomState(seed)
        one = 1.0 if tf.as_dtype(dtype) == tf.float32 else 1
        self._fake = ([one] * _SIDE**2, [1] + [0] * (_CLASSES - 1) if one_hot else 0) if fake_data else None
        stored: tuple[Any, Any] = (images, labels) if fake_data else _as_stored(images, labels, dtype, reshape)
        self._images, self._labels = stored
        self._num_examples = _NUM_FAKES if fake_data else len(self._labels)
        self._epochs_completed = 0
        self._place = 0

    images = property(attrgetter("_images"), doc="The images, in the order in which batches take them.")
    labels = property(attrgetter("_labels"), doc="The labels, in the order of the images.")
    num_examples = property(attrgetter("_num_examples"), doc="The number of examples.")

    @property
    def epochs_completed(self) -> int:
        """The number of passes: all examples were taken, and one more requested."""
        return self._epochs_completed

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Any, Any]:
        """Return the next images and labels; where an epoch ends, the batch goes on with the next one, in a new order.

        Raises:
            ConfigError: There are not as many, or fake ones are asked for where there are none.
        """
        size = check_count(self, "batch_size", batch_size, minimum=0)
        if self._fake is not None:
            return tuple([one] * size for one in self._fake)  # type: ignore[return-value]
        if fake_data:
            raise ConfigError("next_batch got fake_data=True: expected a data set that was made with fake_data=True")
        check_count(self, "batch_size", size, minimum=0, maximum=self._num_examples)
        if self._place == self._epochs_completed == 0 and shuffle:
            self._shuffle()
        end = self._place + size
        if end <= self._num_examples:
            batch = self._images[self._place : end], self._labels[self._place : end]
            self._place = end
            return batch
        rest = self._images[self._place :], self._labels[self._place :]
        self._epochs_completed += 1
        self._place = end - self._num_examples
        if shuffle:
            self._shuffle()
        more = self._images[: self._place], self._labels[: self._place]
        return np.concatenate([rest[0], more[0]]), np.concatenate([rest[1], more[1]])

    def _shuffle(self) -> None:
        order = self._rng.permutation(self._num_examples)
        self._images, self._labels = self._images[order], self._labels[order]


class Datasets(NamedTuple):
    """The three parts of a data set."""

    train: DataSet
    validation: DataSet
    test: DataSet


def dense_to_one_hot(labels_dense: np.ndarray, num_classes: int) -> np.ndarray:
    """Return rows of zeros with a 1 at the label's place: (N,) to (N, num_classes)."""
    return np.eye(num_classes)[labels_dense]


@check_arguments
def read_data_sets(
    train_dir: str | os.PathLike[str],
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = tf.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = SOURCE_URL,
) -> Datasets:
    """Return the images of MNIST, or of a data set in the same files, to train on, to validate with and to test on.

    Args:
        train_dir: where the four files are, such as ``train-images-idx3-ubyte.gz``, compressed or not.
        fake_data: read nothing, and give fake images.
        one_hot: give labels as rows of zeros with one 1.
        dtype: ``tf.float32``, for numbers from 0 to 1, or ``tf.uint8``, for bytes.
        reshape: give images as rows of 784 numbers; else of shape (28, 28, 1).
        validation_size: how many of the images to train on, the first ones, are to validate with instead.
        seed: of the order; None for that of `tpack.fix_rng_seed`, or another one in each run.
        source_url: is not used: nothing is downloaded.

    Raises:
        ConfigError: There are fewer images than are to validate with, or the dtype is another one.
        InputError: A file is missing, or its content is not what was published.
    """
    if fake_data:
        return Datasets(*(DataSet([], [], True, one_hot, dtype, reshape, seed) for _ in range(3)))
    train, test = (_read(part, train_dir, one_hot) for part in ("train", "test"))
    size = check_count("read_data_sets", "validation_size", validation_size, minimum=0, maximum=len(train[1]))
    parts = [(train[0][size:], train[1][size:]), (train[0][:size], train[1][:size]), test]
    return Datasets(*(DataSet(*part, dtype=dtype, reshape=reshape, seed=seed) for part in parts))


def _read(part: str, folder: str | os.PathLike[str], one_hot: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the images of a file, (N, 28, 28, 1), and their labels."""
    data = Mnist(part, dir=folder)
    labels = np.asarray(data.labels)
    return data.stored[..., np.newaxis], dense_to_one_hot(labels, _CLASSES) if one_hot else labels


def _as_stored(images: Any, labels: Any, dtype: Any, reshape: bool) -> tuple[np.ndarray, np.ndarray]:
    images, labels = np.asarray(images), np.asarray(labels)
    if images.ndim == 0 or labels.ndim == 0 or len(images) != len(labels):
        raise ConfigError(f"DataSet got images of shape {images.shape} and labels of {labels.shape}: expected as many")
    if reshape:
        if images.ndim != 4 or images.shape[3] != 1:
            raise ConfigError(
                f"DataSet got images of shape {images.shape}: expected (N, H, W, 1), to make rows of them"
            )
        images = images.reshape(len(images), images.shape[1] * images.shape[2])
    if tf.as_dtype(dtype) == tf.float32:
        images = images.astype(np.float32) / np.float32(255)
    return images, labels
