"""Images with boxes in the format of COCO: what the files say, and flows of it to train on and to evaluate on.

A box is x0, y0, x1, y1 in pixels of the image. A label is the number of a class from 1 on, in the order of the
categories' identifiers, which have gaps in COCO; 0 is what is no object.

Source:
    Lin et al., "Microsoft COCO: Common Objects in Context", https://arxiv.org/abs/1405.0312
"""

import json
import os
from dataclasses import dataclass

import numpy as np

from tpack import DataFromList, MapData, ProxyDataFlow, get_rng
from tpack.dataflow.images import read_image
from tpack.errors import InputError


@dataclass(frozen=True)
class Objects:
    """What is on an image.

    Attributes:
        number: the identifier of the image.
        path: its file.
        boxes: [N, 4] float32.
        labels: [N] int32.
        areas: [N] float64, in pixels of the object and not of its box.
        is_crowd: [N] bool: many objects in one box, which are neither trained on nor to be found.
    """

    number: int
    path: str
    boxes: np.ndarray
    labels: np.ndarray
    areas: np.ndarray
    is_crowd: np.ndarray


def read_coco(directory, part):
    """Return the `Objects` of each image of a part of a set, and the names of the classes.

    Args:
        directory: has the images in a directory of the part's name, and `annotations/instances_<part>.json`.
        part: such as `train`, or `val2017`.
    """
    path = os.path.join(directory, "annotations", f"instances_{part}.json")
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as annotations of COCO: {error}") from error
    categories = sorted(content["categories"], key=lambda category: category["id"])
    labels = {category["id"]: label for label, category in enumerate(categories, 1)}
    by_image = {image["id"]: [] for image in content["images"]}
    for annotation in content["annotations"]:
        by_image[annotation["image_id"]].append(annotation)
    folder = os.path.join(directory, part)
    objects = [_objects(image, by_image[image["id"]], folder, labels) for image in content["images"]]
    return objects, [category["name"] for category in categories]


def _objects(image, annotations, folder, labels):
    boxes = np.array([annotation["bbox"] for annotation in annotations], np.float32).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    # Some boxes of COCO stand out of their images by a fraction of a pixel.
    boxes = np.clip(boxes, 0, [image["width"], image["height"]] * 2).astype(np.float32)
    return Objects(
        image["id"],
        os.path.join(folder, image["file_name"]),
        boxes,
        np.array([labels[annotation["category_id"]] for annotation in annotations], np.int32),
        np.array([annotation["area"] for annotation in annotations], np.float64),
        np.array([annotation.get("iscrowd", 0) for annotation in annotations], bool),
    )


def load(objects):
    """Return [image, boxes, labels, key] of an image; the key is its number and 0."""
    return [read_image(objects.path), objects.boxes, objects.labels, np.array([objects.number, 0], np.int32)]


def evaluation_flow(objects):
    """Return a flow of all images."""
    return MapData(DataFromList(objects, shuffle=False), load)


def training_flow(objects):
    """Return a flow of the images with objects, in random order, every other one mirrored.

    What is chosen at random in the graph is chosen by the second number of the key, so that a seed of the data decides
    about it, and not which tower gets the image.
    """
    good = [one for one in map(without_crowds, objects) if len(one.labels)]
    if not good:
        raise InputError(f"none of {len(objects)} images has an object to train on")
    return RandomViews(MapData(DataFromList(good), load))


def without_crowds(one):
    keep = ~one.is_crowd & (one.boxes[:, 2:] > one.boxes[:, :2]).all(axis=1)
    parts = (part[keep] for part in (one.boxes, one.labels, one.areas, one.is_crowd))
    return Objects(one.number, one.path, *parts)


class RandomViews(ProxyDataFlow):
    """Yields images as they are or mirrored, each with a key of its own."""

    def reset_state(self):
        super().reset_state()
        self.rng = get_rng(self)

    def __iter__(self):
        for image, boxes, labels, (number, _) in self.ds:
            key = np.array([number, self.rng.randint(2**31 - 1)], np.int32)
            if self.rng.randint(2):
                image = np.ascontiguousarray(image[:, ::-1])
                boxes = image.shape[1] * np.float32([1, 0, 1, 0]) + boxes[:, [2, 1, 0, 3]] * np.float32([-1, 1, -1, 1])
            yield [image, boxes, labels, key]
