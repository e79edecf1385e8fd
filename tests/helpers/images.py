"""Images whose content is known, and where their content has gone."""

import numpy as np


def picture(rng, shape=(24, 31, 3), dtype=np.uint8):
    """Return an image of random values from 0 to 255."""
    return rng.integers(0, 256, shape).astype(dtype)


def blob(height, width, x, y, sigma=2.0):
    """Return a float32 image with a round blob whose middle is at the continuous coordinates (x, y)."""
    columns, rows = np.arange(width) + 0.5, np.arange(height) + 0.5
    profile = np.exp(-((columns - x) ** 2) / (2 * sigma**2)), np.exp(-((rows - y) ** 2) / (2 * sigma**2))
    return (255 * np.outer(profile[1], profile[0])).astype(np.float32)


def middle(image):
    """Return the continuous coordinates (x, y) of the centre of mass of an image."""
    weights = image.reshape(*image.shape[:2], -1).sum(axis=2, dtype=np.float64)
    weights = weights / weights.sum()
    rows, columns = np.indices(weights.shape) + 0.5
    return (columns * weights).sum(), (rows * weights).sum()


def marked_pixel(height, width, row, column):
    """Return an image of zeros with one pixel of 255."""
    image = np.zeros((height, width), dtype=np.uint8)
    image[row, column] = 255
    return image


def seeded(augmentor, seed=3):
    """Return an augmentor, and all that it is made of, with generators of a seed."""
    augmentor.rng = np.random.RandomState(seed)
    for number, part in enumerate(augmentor.parts()):
        seeded(part, seed + 7 * number + 1)
    return augmentor
