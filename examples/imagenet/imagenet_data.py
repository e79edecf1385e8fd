"""The photographs of ILSVRC 2012 as batches, decoded and augmented in processes, and fake ones.

A position in the data can be saved and gone back to although processes work ahead: they draw no random numbers of their
own. Each image comes to them with a seed that this process drew.
"""

import cv2
import numpy as np

from tpack.dataflow import BatchData, FakeData, JoinData, MapData, ShardData, imgaug
from tpack.dataflow.dataset import ILSVRC12Files, check_labels
from tpack.dataflow.images import read_image
from tpack.dataflow.imgaug.base import seed_generators
from tpack.dataflow.parallel import MultiProcessMapData

# The covariance of the colours in the training set. Each column is a direction, in blue, green and red.
COLOR_EIGENVALUES = np.array([0.2175, 0.0188, 0.0045]) * 255
COLOR_EIGENVECTORS = np.array([[-0.5836, -0.6948, 0.4203], [-0.5808, -0.0045, -0.8140], [-0.5675, 0.7192, 0.4009]])
# Validation images are cropped from ones that are larger by this.
VALIDATION_SCALE = 256 / 224


def training_augmentors(size):
    """Return the usual ones: a crop of random place and shape, random colours, and a flip."""
    colors = [
        imgaug.BrightnessScale((0.6, 1.4)),
        imgaug.Contrast((0.6, 1.4), rgb=False),
        imgaug.Saturation(0.4, rgb=False),
        # Krizhevsky et al. change colours along the directions in which those of photographs differ most.
        imgaug.Lighting(0.1, eigval=COLOR_EIGENVALUES, eigvec=COLOR_EIGENVECTORS),
    ]
    return [
        imgaug.GoogleNetRandomCropAndResize(target_shape=size),
        imgaug.RandomOrderAug(colors),
        imgaug.Flip(horiz=True),
    ]


def validation_augmentors(size):
    """Return the middle of the image."""
    return [imgaug.ResizeShortestEdge(round(size * VALIDATION_SCALE), cv2.INTER_CUBIC), imgaug.CenterCrop(size)]


class MakeBatch:
    """Makes a batch of images of [paths, labels, seeds]; it is sent to the processes.

    Args:
        augmentors: what is done to each image.
    """

    def __init__(self, augmentors):
        self.augmentors = imgaug.AugmentorList(augmentors)

    def __call__(self, point):
        """Return [images, labels]."""
        # The processes share the cores; threads of OpenCV's would only be in each other's way.
        cv2.setNumThreads(0)
        paths, labels, seeds = point
        images = []
        for path, seed in zip(paths, seeds, strict=True):
            seed_generators(self.augmentors, int(seed))
            images.append(self.augmentors.augment(read_image(path)))
        return [np.stack(images), np.array(labels, np.int32)]


def image_batches(files, batch, augmentors, *, num_workers, remainder, seed=0):
    """Return a flow of [images, labels], of those images that this process has among those of a cluster.

    Args:
        files: a flow of [path, label], all of them.
        batch: how many images a batch has.
        augmentors: what is done to each image.
        num_workers: how many processes read and augment; 0 for none but this one.
        remainder: keep what is left at the end of a pass, of images for the processes and of those for a batch.
        seed: of the order and of the augmentation; the same in all processes.
    """
    seeds = FakeData([[]], len(files), dtype="int64", domain=(0, 2**32))
    share = ShardData(JoinData([files, seeds]), remainder="keep" if remainder else "wrap", seed=seed)
    points = BatchData(share, batch, remainder=remainder, use_list=True)
    make_batch = MakeBatch(augmentors)
    if num_workers == 0:
        return MapData(points, make_batch)
    # In order: the towers then see the same batches in every run, and validation sees each image once.
    return MultiProcessMapData(points, num_workers, make_batch, buffer_size=2 * num_workers, strict=True)


def training_batches(directory, batch, size, num_classes, *, meta_dir=None, num_workers=0, seed=0):
    """Return a flow of this worker's augmented batches, in a new order on each pass, and the number of all images."""
    files = labelled_files(directory, "train", num_classes, meta_dir)
    augmentors = training_augmentors(size)
    return image_batches(files, batch, augmentors, num_workers=num_workers, remainder=False, seed=seed), len(files)


def validation_batches(directory, batch, size, num_classes, *, meta_dir=None, num_workers=0):
    """Return a flow of this worker's share of the validation images, none of which is in two shares."""
    files = labelled_files(directory, "val", num_classes, meta_dir)
    return image_batches(files, batch, validation_augmentors(size), num_workers=num_workers, remainder=True)


def labelled_files(directory, part, num_classes, meta_dir):
    """Return a flow of [path, label], all of whose labels the model has a class for; it would not notice others."""
    files = ILSVRC12Files(directory, part, meta_dir=meta_dir)
    check_labels([label for _, label in files.files], num_classes)
    return files


def fake_batches(num_batches, batch, size, num_classes):
    """Return a flow of one batch of random images again and again, which costs nothing to make."""
    shapes = [[batch, size, size, 3], [batch]]
    domains = [(0, 256), (0, num_classes)]
    return FakeData(shapes, num_batches, random=False, dtype=["uint8", "int32"], domain=domains)


def image_to_predict(path, size):
    """Return the image of a file, [size, size, 3]."""
    return imgaug.AugmentorList(validation_augmentors(size)).augment(read_image(path))
