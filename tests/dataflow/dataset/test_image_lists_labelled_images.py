"""Flows over images in memory."""

import pickle

import numpy as np

from tests.helpers.images import picture
from tpack.dataflow.dataset.image_lists import LabelledImages, UnitImages, mean_image
from tpack.utils import serialize
from tpack.utils.rng import fix_rng_seed


def ready(ds):
    ds.reset_state()
    return ds


def test_points_are_images_of_their_own_and_integers(rng):
    images, labels = picture(rng, (5, 4, 4, 3)), np.arange(5, dtype=np.uint8)
    points = list(ready(LabelledImages(images, labels, shuffle=False)))
    for (image, label), stored, number in zip(points, images, range(5), strict=True):
        np.testing.assert_array_equal(image, stored)
        assert not np.shares_memory(image, images)
        assert (type(label), label) == (int, number)


def test_unit_images_are_from_zero_to_one():
    ((image, label),) = ready(UnitImages(np.array([[[0, 51, 255]]], np.uint8), np.array([3]), shuffle=False))
    assert image.dtype == np.float32
    np.testing.assert_allclose(image, [[0, 0.2, 1]])
    assert label == 3


def test_shuffled_passes_go_on_from_a_state(rng):
    try:
        fix_rng_seed(3)
        ds = ready(LabelledImages(picture(rng, (9, 2, 2)), np.arange(9), shuffle=True))
    finally:
        fix_rng_seed(None)
    points = iter(ds)
    taken = [next(points)[1] for _ in range(4)]
    state = serialize.loads(serialize.dumps(ds.state_dict()))
    other = ready(pickle.loads(pickle.dumps(ds)))
    other.load_state_dict(state)
    rest = [label for _, label in other]
    assert sorted(taken + rest) == list(range(9))
    assert rest == [label for _, label in points]
    assert [label for _, label in other] == [label for _, label in ds]


def test_mean_is_over_all_images(rng):
    parts = [picture(rng, (5, 4, 4, 3)), picture(rng, (2, 4, 4, 3))]
    found = mean_image(parts)
    np.testing.assert_allclose(found, np.concatenate(parts).mean(axis=0), rtol=1e-6)
    assert found.dtype == np.float32
