"""Make a set of pictures to detect circles, squares and triangles in, in the format of COCO.

    python examples/detection/made_shapes.py DIR --train 1000 --val 200

It writes `annotations/instances_train.json`, `annotations/instances_val.json` and the pictures, in `train` and `val`.
Pictures are of many sizes, and shapes of many sizes, colours and directions, on a ground that is noisy and gets darker
to one side. The same seed makes the same set, byte by byte.
"""

import argparse
import json
import os

import cv2
import numpy as np

KINDS = ("circle", "square", "triangle")
SIDES = 96, 160
RADII = 9, 30
MOST_SHAPES = 5
MOST_OVERLAP = 0.1


def is_inside(kind, x, y):
    """Tell which points belong to a shape whose corners have the distance 1 from the origin; [...] all."""
    return {
        "circle": np.hypot(x, y) < 1,
        "square": np.maximum(abs(x), abs(y)) < np.sqrt(0.5),
        "triangle": (y > -0.5) & (y + np.sqrt(3) * abs(x) < 1),
    }[kind]


def make_ground(rng, height, width):
    """Return a picture without shapes, [H, W, 3], and its colour."""
    y, x = np.mgrid[:height, :width]
    color, angle = rng.uniform(60, 190, 3), rng.uniform(0, 2 * np.pi)
    slope = np.cos(angle) * (x / width - 0.5) + np.sin(angle) * (y / height - 0.5)  # [H, W]
    return color + 40 * slope[..., None] + rng.normal(0, 10, (height, width, 3)), color


def place_shape(rng, height, width, taken):
    """Return the pixels of a shape of random kind, place, size and direction, and the kind.

    Args:
        rng: a ``numpy.random.Generator``.
        height: of the picture.
        width: of the picture.
        taken: the pixels of the shapes that are there, of which it covers hardly any, [H, W].

    Returns:
        The pixels, [H, W], and the number of the kind.
    """
    y, x = np.mgrid[:height, :width] + 0.5
    while True:
        kind, radius, angle = rng.integers(len(KINDS)), rng.uniform(*RADII), rng.uniform(0, 2 * np.pi)
        u = (x - rng.uniform(radius, width - radius)) / radius
        v = (y - rng.uniform(radius, height - radius)) / radius
        inside = is_inside(KINDS[kind], u * np.cos(angle) + v * np.sin(angle), v * np.cos(angle) - u * np.sin(angle))
        if (inside & taken).sum() <= MOST_OVERLAP * inside.sum():
            return inside, int(kind)


def draw(rng):
    """Return a picture and its shapes.

    Returns:
        picture: what is seen, uint8, [H, W, 3]; shapes: a dict of what COCO says of each.
    """
    height, width = rng.integers(SIDES[0], SIDES[1] + 1, size=2).tolist()
    picture, ground = make_ground(rng, height, width)
    taken, shapes = np.zeros([height, width], bool), []
    for _ in range(rng.integers(1, MOST_SHAPES + 1)):
        inside, kind = place_shape(rng, height, width, taken)
        taken |= inside
        # A colour that the ground does not have, to whichever side there is more room.
        color = ground + np.where(ground < 125, 1, -1) * rng.uniform(35, 65, 3)
        picture[inside] = color + rng.normal(0, 10, (inside.sum(), 3))
        rows, columns = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
        left, top = int(columns[0]), int(rows[0])
        box = [left, top, int(columns[-1]) + 1 - left, int(rows[-1]) + 1 - top]
        shapes.append({"category_id": kind + 1, "bbox": box, "area": int(inside.sum()), "iscrowd": 0})
    return picture.clip(0, 255).astype(np.uint8), shapes


def write_part(directory, part, count, seed):
    """Write the pictures of a part of the set, and last what is on them."""
    rng = np.random.default_rng(seed)
    os.makedirs(os.path.join(directory, part), exist_ok=True)
    os.makedirs(os.path.join(directory, "annotations"), exist_ok=True)
    images, annotations = [], []
    for number in range(1, count + 1):
        picture, shapes = draw(rng)
        name, (height, width) = f"{number:06}.png", picture.shape[:2]
        cv2.imwrite(os.path.join(directory, part, name), picture)
        images.append({"id": number, "file_name": name, "height": height, "width": width})
        for shape in shapes:
            annotations.append({"id": len(annotations) + 1, "image_id": number, **shape})
    categories = [{"id": number, "name": kind} for number, kind in enumerate(KINDS, 1)]
    content = {"images": images, "annotations": annotations, "categories": categories}
    with open(os.path.join(directory, "annotations", f"instances_{part}.json"), "w", encoding="utf-8") as file:
        json.dump(content, file)


def write(directory, *, train=1000, val=200, seed=0):
    """Write both parts, with so many pictures each."""
    write_part(directory, "train", train, [seed, 0])
    write_part(directory, "val", val, [seed, 1])


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", metavar="DIR")
    parser.add_argument("--train", type=int, default=1000, help="how many pictures to train on (default: 1000)")
    parser.add_argument("--val", type=int, default=200, help="how many to evaluate on (default: 200)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    write(options.directory, train=options.train, val=options.val, seed=options.seed)


if __name__ == "__main__":
    main()
