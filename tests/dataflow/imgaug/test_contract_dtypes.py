"""Augmentors that only move pixels take every dtype, and move the same pixels whichever it is."""

import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow import imgaug
from tpack.dataflow.imgaug.geometry import WarpAffineTransform
from tpack.errors import DataPointError

DTYPES = [
    "bool",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "int64",
    "uint64",
    "float16",
    "float64",
    ">i4",
    "complex64",
]
MOVING = {
    "affine": lambda: imgaug.Affine((0.8, 1.3), (0.1, 0.1), 25, 12, interp=0, border=0, border_value=1),
    "affine, mirrored": lambda: imgaug.Affine((0.8, 1.3), rotate_max_deg=90, interp=0, border=4),
    "center crop": lambda: imgaug.CenterCrop((41, 45)),
    "center paste": lambda: imgaug.CenterPaste((61, 62), imgaug.ConstantBackgroundFiller(1)),
    "cutout": lambda: imgaug.RandomCutout(5, (3, 8), 1),
    "flip": lambda: imgaug.Flip(horiz=True, prob=1),
    "flip down": lambda: imgaug.Flip(vert=True, prob=1),
    "random resized crop": lambda: imgaug.GoogleNetRandomCropAndResize((0.5, 1), target_shape=(40, 44), interp=0),
    "random crop": lambda: imgaug.RandomCrop((40, 45)),
    "random shape": lambda: imgaug.RandomCropRandomShape(30, 36, max_aspect_ratio=1.5),
    "random paste": lambda: imgaug.RandomPaste((61, 62)),
    "random resize": lambda: imgaug.RandomResize((0.8, 1.4), interp=0),
    "resize": lambda: imgaug.Resize((70, 41), interp=0),
    "resize exactly": lambda: imgaug.Resize((70, 41), interp=6),
    "shortest edge": lambda: imgaug.ResizeShortestEdge(60, interp=0),
    "rotation": lambda: imgaug.Rotation(30, (0.4, 0.6), interp=0, border=0),
    "rotation and crop": lambda: imgaug.RotationAndCropValid(15, interp=0),
    "shift": lambda: imgaug.Shift(0.15, 0.15, border=0, border_value=1),
    "shift, repeated": lambda: imgaug.Shift(0.15, 0.15),
    "transpose": lambda: imgaug.Transpose(1),
}
INTERPOLATING = {
    "affine": lambda: imgaug.Affine(rotate_max_deg=25),
    "rotation": lambda: imgaug.Rotation(30),
    "resize": lambda: imgaug.Resize(60),
}


def every(members):
    return pytest.mark.parametrize("make", members.values(), ids=members)


@every(MOVING)
@pytest.mark.parametrize("channels", [(), (1,), (2,), (3,), (6,)])
def test_every_dtype_is_moved_as_uint8_is(make, channels, rng):
    for seed, dtype in enumerate(DTYPES):
        image = picture(rng, (48, 56, *channels)) % 2 if dtype == "bool" else picture(rng, (48, 56, *channels)) % 128
        wanted = seeded(make(), seed).augment(image).astype(dtype)
        found = seeded(make(), seed).augment(image.astype(dtype))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted)


@every(MOVING)
def test_values_that_floats_lack_and_bits_of_nan_stay(make, rng):
    image = rng.integers(-(2**62), 2**62, (48, 56))
    moved = seeded(make()).augment(image)
    assert set(moved.ravel().tolist()) <= {*image.ravel().tolist(), 0, 1}
    as_floats = seeded(make()).augment(image.view(np.float64)).view(np.int64)
    is_inside = np.isin(moved, image)
    np.testing.assert_array_equal(as_floats[is_inside], moved[is_inside])


@every(MOVING)
def test_image_is_not_changed_and_may_be_a_view(make, rng):
    image = rng.integers(0, 2**16, (48, 56, 3)).astype(np.uint16)
    view, before = image[::-1, ::-1], image.copy()
    image.flags.writeable = False
    found = seeded(make()).augment(view)
    np.testing.assert_array_equal(found, seeded(make()).augment(np.ascontiguousarray(view)))
    np.testing.assert_array_equal(image, before)


@every(INTERPOLATING)
def test_interpolation_says_how_to_move_pixels_instead(make, rng):
    with pytest.raises(DataPointError, match="dtype int32: expected uint8 or floats; use interp=0 for every dtype"):
        make().augment(picture(rng).astype(np.int32))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("uint16", -1), ("int32", 0.5), ("int8", 200), ("bool", 2), ("int64", np.inf), ("int16", (1, 2, 1e9))],
)
def test_value_that_the_dtype_lacks_is_not_filled_in(dtype, value, rng):
    image = np.ones((8, 9, 3), dtype)
    right = np.array([[1, 0, 2], [0, 1, 0]])
    filler = imgaug.ConstantBackgroundFiller(value)
    for augmentor in (imgaug.CenterPaste(20, filler), imgaug.RandomCutout(3, 3, value)):
        with pytest.raises(DataPointError, match=f"dtype {dtype}: expected one for the value"):
            augmentor.augment(image)
    with pytest.raises(DataPointError, match="expected one for the value"):
        WarpAffineTransform(right, (9, 8), interp=0, borderValue=value).apply_image(image)


@pytest.mark.parametrize(
    ("interp", "dtype"), [(0, "uint8"), (0, "int32"), (0, "float64"), (1, "uint8"), (1, "float64")]
)
def test_each_of_many_channels_has_its_border_value(interp, dtype, rng):
    right = WarpAffineTransform(np.array([[1, 0, 2], [0, 1, 0]]), (9, 8), interp, borderValue=(1, 2, 3, 4, 5, 6))
    for channels in (2, 5, 6):
        moved = right.apply_image(picture(rng, (8, 9, channels)).astype(dtype))
        np.testing.assert_array_equal(moved[:, :2], np.broadcast_to(np.arange(1, channels + 1), (8, 2, channels)))


def test_shift_keeps_what_no_number_is(rng):
    image = rng.random((20, 30)).astype(np.float32)
    image[10, 15] = np.nan
    moved = seeded(imgaug.Shift(0.2, 0.2)).augment(image)
    assert np.isnan(moved).sum() == 1
