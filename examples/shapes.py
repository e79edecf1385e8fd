"""Made pictures for examples that want more than digits: coloured shapes on a noisy ground, in any size and number.

A picture comes with what a label, a mask or a detector's boxes would be, so that classification, picture-to-picture
translation and detection can all be tried without a download. The same seed gives the same pictures.
"""

import numpy as np

KINDS = ("disk", "ring", "square", "triangle", "cross", "bar")


def is_inside(kind, x, y):
    """Tell which points belong to a shape of radius 1 around the origin.

    Shapes:
        x, y: [...]; returned: [...].
    """
    distance, farther, nearer = np.hypot(x, y), np.maximum(abs(x), abs(y)), np.minimum(abs(x), abs(y))
    return {
        "disk": distance < 0.9,
        "ring": (distance > 0.5) & (distance < 1),
        "square": farther < 0.8,
        "triangle": (y > -0.6) & (y < 1 - 1.8 * abs(x)),
        "cross": (nearer < 0.3) & (farther < 1),
        "bar": (abs(x) < 0.35) & (abs(y) < 1),
    }[kind]


def draw(rng, size, num_shapes=1):
    """Draw shapes of random kind, colour, place, size and direction, later ones over earlier ones.

    Args:
        rng: a ``numpy.random.Generator``.
        size: S, height and width of the picture.
        num_shapes: N, how many.

    Returns:
        picture: what is seen, uint8; mask: 0 for the ground, k for the k-th shape; boxes: x0, y0, x1, y1 of what was
        drawn; labels: the numbers of the kinds.

    Shapes:
        picture: [S, S, 3]; mask: [S, S]; boxes: [N, 4]; labels: [N].
    """
    y, x = np.mgrid[:size, :size] + 0.5
    ground = rng.uniform(60, 190, 3)
    picture, mask = np.broadcast_to(ground, (size, size, 3)).copy(), np.zeros([size, size], np.int32)
    boxes, labels = np.zeros([num_shapes, 4], np.float32), rng.integers(len(KINDS), size=num_shapes)
    for number, label in enumerate(labels):
        radius = rng.uniform(0.6, 1) * size * (0.4 if num_shapes == 1 else 0.2)
        center, angle = rng.uniform(radius, size - radius, 2), rng.uniform(0, 2 * np.pi)
        u, v = (x - center[0]) / radius, (y - center[1]) / radius
        turned = u * np.cos(angle) + v * np.sin(angle), v * np.cos(angle) - u * np.sin(angle)
        inside = is_inside(KINDS[label], *turned)
        # A colour that the ground does not have, to whichever side there is more room.
        picture[inside] = ground + np.where(ground < 125, 1, -1) * rng.uniform(30, 65, 3)
        mask[inside] = number + 1
        rows, columns = np.nonzero(inside)
        boxes[number] = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
    picture += rng.normal(0, 12, picture.shape)
    return picture.clip(0, 255).astype(np.uint8), mask, boxes, labels.astype(np.int32)


def pictures_of_one(seed, count, size):
    """Return pictures of one shape each, their masks, and the kinds.

    Shapes:
        [count, size, size, 3], [count, size, size], [count].
    """
    rng = np.random.default_rng(seed)
    drawn = [draw(rng, size) for _ in range(count)]
    pictures, masks, _, labels = (np.stack(part) for part in zip(*drawn, strict=True))
    return pictures, masks, labels[:, 0]
