"""RandAugment: each operation against Pillow's, their strengths, and how they are drawn."""

import cv2
import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from tests.helpers.images import seeded
from tpack.dataflow import imgaug
from tpack.dataflow.imgaug.base import NoOpTransform
from tpack.dataflow.imgaug.rand_augment import OPERATIONS, _Setting, make_operation
from tpack.errors import ConfigError, DataPointError


@pytest.fixture
def image(rng):
    """Colours that do not use all values, as those of a photograph."""
    smooth = cv2.resize(rng.random((6, 7, 3)), (56, 48), interpolation=cv2.INTER_CUBIC)
    return (40 + 170 * np.clip(smooth, 0, 1) + 4 * rng.random((48, 56, 3))).astype(np.uint8)


def changed(name, image, strength, fill=128):
    return make_operation(name, image, _Setting(strength, 0, fill, is_rgb=True)).apply_image(image)


def pillow(function):
    return lambda image, *arguments: np.asarray(function(Image.fromarray(image), *arguments))


@pytest.mark.parametrize(
    ("name", "strength", "oracle"),
    [
        ("autocontrast", 0.5, pillow(ImageOps.autocontrast)),
        ("equalize", 0.5, pillow(ImageOps.equalize)),
        ("solarize", 0.5, pillow(lambda img: ImageOps.solarize(img, 128))),
        ("solarize", -0.75, pillow(lambda img: ImageOps.solarize(img, 64))),
        ("posterize", 0.5, pillow(lambda img: ImageOps.posterize(img, 6))),
        ("posterize", -1, pillow(lambda img: ImageOps.posterize(img, 4))),
        *(
            (name, strength, pillow(lambda img, kind=kind, strength=strength: kind(img).enhance(1 + 0.9 * strength)))
            for name, kind in [
                ("color", ImageEnhance.Color),
                ("contrast", ImageEnhance.Contrast),
                ("brightness", ImageEnhance.Brightness),
                ("sharpness", ImageEnhance.Sharpness),
            ]
            for strength in (-1, 0.5, 1)
        ),
    ],
)
def test_values_are_those_of_pillow(image, name, strength, oracle):
    found, wanted = changed(name, image, strength), oracle(image)
    # Pillow cuts fractions off, and computes grey with weights of its own precision.
    assert np.abs(found.astype(int) - wanted).max() <= 2
    assert (found != image).mean() > 0.05


def test_pixels_move_as_far_as_the_ranges_say():
    image = np.zeros((331, 331, 3), np.uint8)
    image[160:171, 160:171] = 255

    def middle(name, strength):
        rows, columns = np.nonzero(changed(name, image, strength, fill=0)[..., 0])
        return rows.mean(), columns.mean()

    assert middle("translate x", 1) == (165, 315)
    assert middle("translate x", -0.5) == (165, 90)
    assert middle("translate y", 1) == (315, 165)
    assert middle("rotate", 1) == pytest.approx((165, 165), abs=0.5)
    # The middle of the image is 165 rows below the first, which stays.
    assert middle("shear x", 1) == pytest.approx((165, 165 + 0.3 * 165), abs=1)
    assert middle("shear y", -1) == pytest.approx((165 - 0.3 * 165, 165), abs=1)
    turned = changed("rotate", image, 1, fill=0)[..., 0]
    np.testing.assert_array_equal(turned, np.asarray(Image.fromarray(image[..., 0]).rotate(30)))


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in ("autocontrast", "equalize")])
def test_magnitude_zero_changes_nothing_and_more_changes_more(image, name):
    for sign in (-1.0, 1.0):
        np.testing.assert_array_equal(changed(name, image, 0.0 * sign), image)
        if name != "nothing":
            far = [np.abs(changed(name, image, sign * part).astype(int) - image).sum() for part in (0.3, 0.6, 1.0)]
            assert far[0] <= far[1] <= far[2] or " " in name
            assert far[2] > 0


@pytest.mark.parametrize("name", OPERATIONS)
def test_floats_are_changed_alike_and_dtypes_kept(image, name):
    wanted = changed(name, image, 0.6)
    for dtype in (np.float32, np.float64):
        found = changed(name, image.astype(dtype), 0.6)
        assert found.dtype == dtype
        # Grey and smoothed images are rounded in between where they are of whole numbers.
        assert np.abs(found - wanted).max() <= 1.1


def test_operations_are_drawn_alike_often_in_both_directions(image):
    augmentor = seeded(imgaug.RandAugment(3, 5))
    drawn = [part for _ in range(400) for part in augmentor.get_transform(image).tfms]
    assert len(drawn) == 1200
    plain = sum(isinstance(part, NoOpTransform) for part in drawn)
    named = [part.name for part in drawn if hasattr(part, "name")]
    assert set(named) == {name for name in OPERATIONS if " " not in name} - {"nothing", "rotate"}
    for count in (plain, *(named.count(name) for name in set(named))):
        assert 50 < count < 125
    strengths = {part.setting.strength for part in drawn if hasattr(part, "setting")}
    assert strengths == {-0.5, 0.5}


def test_coordinates_follow_what_moves_pixels(image):
    setting = _Setting(1.0, 0, 0, is_rgb=False)
    coords = np.array([[10.5, 20.5]])
    moved = make_operation("translate x", image, setting).apply_coords(coords)
    np.testing.assert_allclose(moved, [[10.5 + round(56 * 150 / 331), 20.5]])
    np.testing.assert_array_equal(make_operation("solarize", image, setting).apply_coords(coords), coords)


def test_order_of_channels_matters_for_grey(image):
    red = np.zeros((4, 4, 3), np.uint8)
    red[..., 0] = 200
    as_rgb = make_operation("color", red, _Setting(-1.0, 0, 0, is_rgb=True)).apply_image(red)
    as_bgr = make_operation("color", red, _Setting(-1.0, 0, 0, is_rgb=False)).apply_image(red)
    assert as_rgb[0, 0, 1] == round(0.9 * 60)
    assert as_bgr[0, 0, 1] == round(0.9 * 23)


def test_what_cannot_be_is_refused(image):
    with pytest.raises(ConfigError, match="RandAugment got magnitude=11: expected at most 10"):
        imgaug.RandAugment(2, 11)
    assert imgaug.RandAugment(2, 11, max_magnitude=30).magnitude == 11
    with pytest.raises(ConfigError, match="num_ops=0: expected an integer of at least 1"):
        imgaug.RandAugment(0)
    with pytest.raises(DataPointError, match="RandAugment got an image of shape .*: expected three channels"):
        imgaug.RandAugment().augment(image[..., 0])
