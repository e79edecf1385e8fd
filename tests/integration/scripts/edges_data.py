"""BSDS500 in batches of one shape; a module of its own, so that a worker does not load TensorFlow."""

import cv2
import numpy as np

from tpack.dataflow import (
    AugmentImageComponent,
    AugmentImageComponents,
    BatchData,
    BatchDataByShape,
    MapDataComponent,
    MultiProcessRunnerZMQ,
    dataset,
    imgaug,
)

MULTIPLE = 16


class CropMultiple16(imgaug.ImageAugmentor):
    """Crop at a random place so that height and width are multiples of 16."""

    def get_transform(self, img):
        h, w = (size // MULTIPLE * MULTIPLE for size in img.shape[:2])
        y0, x0 = (self.rng.randint(0, old - new + 1) for old, new in zip(img.shape[:2], (h, w), strict=True))
        return imgaug.CropTransform(y0, x0, h, w)


class Shrink(imgaug.ImageAugmentor):
    """Make an image smaller by a whole factor, each pixel the mean of those in its place."""

    def __init__(self, factor):
        self.factor = factor

    def get_transform(self, img):
        h, w = img.shape[:2]
        return imgaug.ResizeTransform(h, w, h // self.factor, w // self.factor, cv2.INTER_AREA)


def get_data(name, directory, batch):
    ds = dataset.BSDS500(name, data_dir=directory, shuffle=name == "train")
    augmentors = [Shrink(4)]
    if name == "train":
        augmentors += [
            imgaug.RandomResize(xrange=(0.8, 1.2), yrange=(0.8, 1.2), aspect_ratio_thres=0.15),
            imgaug.RotationAndCropValid(10),
            CropMultiple16(),
            imgaug.Flip(horiz=True),
            imgaug.Flip(vert=True),
        ]
    else:
        augmentors += [CropMultiple16()]
    ds = AugmentImageComponents(ds, augmentors, (0, 1), copy=False)
    # Where people drew through a third of a pixel, it is one of the edge.
    ds = MapDataComponent(ds, lambda edges: (edges > 1 / 3).astype(np.int32), 1)
    if name == "train":
        ds = AugmentImageComponent(ds, [imgaug.Brightness(40, clip=False), imgaug.Contrast((0.7, 1.3))], copy=False)
        return MultiProcessRunnerZMQ(BatchDataByShape(ds, batch, idx=0), 1)
    return BatchData(ds, 1)
