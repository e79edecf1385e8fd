"""The handwritten digits of scikit-learn as data flows: what MNIST is to scripts elsewhere, without a download."""

import numpy as np
from sklearn.datasets import load_digits

from tpack.dataflow import BatchData, MapData, MapDataComponent, RNGDataFlow

IMAGE_SIZE = 8
NUM_TRAIN = 1437


class Digits(RNGDataFlow):
    """Yields [image, label]; an image is 8x8 and of float32 in [0, 1]."""

    def __init__(self, train_or_test, shuffle=None):
        assert train_or_test in ("train", "test")
        images, labels = load_digits(return_X_y=True)
        images = (images.reshape(-1, IMAGE_SIZE, IMAGE_SIZE) / 16).astype("float32")
        # The file is sorted by writer; a fixed order makes both parts alike.
        order = np.random.RandomState(0).permutation(len(images))
        order = order[:NUM_TRAIN] if train_or_test == "train" else order[NUM_TRAIN:]
        self.images, self.labels = images[order], labels[order].astype("int32")
        self.shuffle = train_or_test == "train" if shuffle is None else shuffle

    def __len__(self):
        return len(self.images)

    def __iter__(self):
        indices = np.arange(len(self))
        if self.shuffle:
            self.rng.shuffle(indices)
        for index in indices:
            yield [self.images[index], self.labels[index]]


def get_data(train_or_test, batch):
    """Batches of images as they are; the last one of the test set may be smaller."""
    return BatchData(Digits(train_or_test), batch, remainder=train_or_test == "test")


def get_augmented_data(train_or_test, batch):
    """Batches with a channel; images for training are moved by up to a pixel."""
    is_train = train_or_test == "train"
    ds = Digits(train_or_test)
    ds = MapDataComponent(ds, lambda image: image[:, :, np.newaxis], 0)
    if is_train:

        def shift(dp):
            image, label = dp
            return [np.roll(image, ds.ds.rng.randint(-1, 2), axis=1), label]

        return BatchData(MapData(ds, shift), batch)
    return BatchData(ds, batch, remainder=True)
