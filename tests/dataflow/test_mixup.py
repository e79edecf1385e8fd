"""Examples of a batch mixed with each other."""

import numpy as np
import pytest

from tpack.dataflow.batch import BatchData
from tpack.dataflow.mixup import CutMix, MixUp, blend
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, DataPointError
from tpack.utils.rng import fix_rng_seed

CLASSES = 5


def examples(dtype=np.float32, count=16, shape=(12, 20, 3)):
    """Return examples whose pixels are all their class, so that what an image is made of can be told from it."""
    return [[np.full(shape, k % CLASSES, dtype), k % CLASSES] for k in range(count)]


def ready(kind, points, batch_size=4, **options):
    ds = kind(BatchData(DataFromList(points, shuffle=False), batch_size), **options)
    ds.reset_state()
    return ds


@pytest.fixture
def seeded():
    """Fix the seed for a test."""
    fix_rng_seed(3)
    yield
    fix_rng_seed(None)


@pytest.mark.parametrize("kind", [MixUp, CutMix])
def test_labels_say_what_images_are_made_of(kind, seeded):
    for images, labels in ready(kind, examples(np.float64, 200), alpha=1.0, num_classes=CLASSES):
        assert images.dtype == np.float64 and images.shape == (4, 12, 20, 3)
        assert labels.dtype == np.float32 and labels.shape == (4, CLASSES)
        np.testing.assert_allclose(labels.sum(axis=1), 1, rtol=1e-6)
        # The mean of the pixels is the mean of the classes by their weights, with the area that was really replaced.
        np.testing.assert_allclose(images.mean(axis=(1, 2, 3)), labels @ np.arange(CLASSES), rtol=1e-5, atol=1e-5)


def test_blended_images_are_blended_by_the_weight_that_was_drawn():
    points = examples(count=4)
    ds = ready(MixUp, points, num_classes=CLASSES)
    ds.rng = np.random.RandomState(7)
    (images, labels), same = next(iter(ds)), np.random.RandomState(7)
    weight, order = same.beta(0.2, 0.2), same.permutation(4)
    originals, hard = np.stack([point[0] for point in points]), np.eye(CLASSES)[:4]
    np.testing.assert_allclose(images, weight * originals + (1 - weight) * originals[order], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(labels, weight * hard + (1 - weight) * hard[order], rtol=1e-5, atol=1e-6)


def test_boxes_are_one_rectangle_of_the_published_size(seeded):
    ds = ready(CutMix, [[np.full((40, 60), k, np.uint8), k] for k in range(2)], batch_size=2, num_classes=2)
    num_cut = 0
    for _ in range(200):
        ((images, labels),) = ds
        other = images[0] == 1
        if not other.any():
            continue
        num_cut += 1
        rows, columns = np.flatnonzero(other.any(axis=1)), np.flatnonzero(other.any(axis=0))
        assert other[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
        np.testing.assert_allclose(labels[0, 1], other.mean(), rtol=1e-5)
        # A box that touches no edge has sides in the proportion of the image's, but for what rounding takes.
        if rows[0] > 0 and columns[0] > 0 and rows[-1] < 39 and columns[-1] < 59:
            assert abs(len(rows) / 40 - len(columns) / 60) < 0.09
    assert num_cut > 20


def test_bytes_stay_bytes_and_are_rounded():
    images = np.array([[0, 10, 255], [255, 11, 255]], np.uint8)
    np.testing.assert_array_equal(
        blend(images, np.array([1, 0]), 0.75), np.array([[64, 10, 255], [191, 11, 255]], np.uint8)
    )


@pytest.mark.parametrize("kind", [MixUp, CutMix])
def test_soft_labels_dicts_and_what_came_are_kept(kind, seeded):
    points = [{"x": image, "y": np.eye(CLASSES, dtype=np.float64)[k], "name": k} for image, k in examples()]
    before = [point["x"].copy() for point in points]
    ds = ready(kind, points, image="x", label="y")
    batches = list(ds)
    assert len(batches) == len(ds) == 4
    for batch in batches:
        assert list(batch) == ["x", "y", "name"] and batch["y"].dtype == np.float64
        np.testing.assert_array_equal(batch["name"], batch["name"].astype(int))
    for point, kept in zip(points, before, strict=True):
        np.testing.assert_array_equal(point["x"], kept)


def test_same_seed_mixes_the_same(seeded):
    found = []
    for seed in (1, 1, 2):
        fix_rng_seed(seed)
        found.append(np.stack([labels for _, labels in ready(CutMix, examples(), num_classes=CLASSES)]))
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


@pytest.mark.parametrize("kind", [MixUp, CutMix])
def test_wrong_arguments_are_refused(kind):
    ds = BatchData(DataFromList(examples()), 4)
    with pytest.raises(ConfigError, match="alpha=0: expected a number greater than 0"):
        kind(ds, 0)
    with pytest.raises(ConfigError, match="num_classes=0"):
        kind(ds, num_classes=0)
    with pytest.raises(ConfigError, match="expected two components"):
        kind(ds, image=1, label=1)


IMAGE = np.zeros((4, 4, 3), np.float32)


@pytest.mark.parametrize(
    ("point", "options", "message"),
    [
        ([IMAGE, 1], {}, r"expected floats of \[2, classes\]; use num_classes="),
        ([IMAGE, 1.0], {"num_classes": 2}, "expected 2 integers, class numbers, since"),
        ([IMAGE, np.eye(2)[0]], {"num_classes": 2}, "expected 2 integers, class numbers"),
        ([IMAGE, 2], {"num_classes": 2}, "from 2 to 2: expected class numbers up to 1"),
        ([IMAGE, -1], {"num_classes": 2}, "expected class numbers up to 1"),
        ([IMAGE.astype(np.int64), 0], {"num_classes": 2}, "an array of int64"),
        ([1.0, 0], {"num_classes": 2}, r"an array of float32\[2\] as component 0 of data point 0: expected a batch"),
        ([IMAGE], {"num_classes": 2}, "data point 0 has no component 1"),
        ([np.ones(4), 0], {"label": -2}, "image=0 and label=-2, one component of data point 0, a list of 2"),
        ([IMAGE, 0], {"num_classes": 2, "image": "x"}, "has no component 'x'"),
    ],
)
def test_batches_that_cannot_be_mixed_are_refused(point, options, message):
    for kind in (MixUp, CutMix):
        with pytest.raises(DataPointError, match=message):
            next(iter(ready(kind, [point, point], batch_size=2, **options)))


def test_lists_in_place_of_batches_and_what_has_no_sides_are_refused():
    lists = MixUp(BatchData(DataFromList(examples()), 4, use_list=True), num_classes=CLASSES)
    lists.reset_state()
    with pytest.raises(DataPointError, match="got list as component 0 of data point 0: expected a batch of images"):
        next(iter(lists))
    with pytest.raises(DataPointError, match=r"CutMix got images of shape \[4, 7\]: expected \[B, H, W\]"):
        next(iter(ready(CutMix, examples(shape=(7,)), num_classes=CLASSES)))
