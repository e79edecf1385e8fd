"""What every augmentor must do, tested on each of them."""

import pickle

import cv2
import numpy as np
import pytest

from tests.helpers.images import blob, middle, picture, seeded
from tpack.dataflow import imgaug
from tpack.errors import DataPointError

EIGENVECTORS = np.linalg.qr(np.arange(9).reshape(3, 3) + np.eye(3))[0]


def flip_coords(coords):
    """Move coordinates as ``np.flipud`` moves an image of height 48."""
    return np.column_stack([coords[:, 0], 48 - coords[:, 1]])


# Augmentors that move pixels, for images of 48 x 56.
GEOMETRIC = {
    "affine": lambda: imgaug.Affine((0.8, 1.3), (0.1, 0.1), 25, 12, border=0),
    "center crop": lambda: imgaug.CenterCrop((41, 45)),
    "center paste": lambda: imgaug.CenterPaste((61, 62)),
    "flip": lambda: imgaug.Flip(horiz=True, prob=0.7),
    "flip down": lambda: imgaug.Flip(vert=True, prob=0.7),
    "random resized crop": lambda: imgaug.GoogleNetRandomCropAndResize((0.5, 1), target_shape=(40, 44)),
    "random crop": lambda: imgaug.RandomCrop((40, 45)),
    "random shape": lambda: imgaug.RandomCropRandomShape(30, 36, max_aspect_ratio=1.5),
    "random paste": lambda: imgaug.RandomPaste((61, 62)),
    "random resize": lambda: imgaug.RandomResize((0.8, 1.4)),
    "resize": lambda: imgaug.Resize((70, 41)),
    "shortest edge": lambda: imgaug.ResizeShortestEdge(60),
    "rotation": lambda: imgaug.Rotation(30, (0.4, 0.6), border=0),
    "rotation and crop": lambda: imgaug.RotationAndCropValid(15),
    "shift": lambda: imgaug.Shift(0.15, 0.15, border=0),
    "transpose": lambda: imgaug.Transpose(0.7),
    "list": lambda: imgaug.AugmentorList([imgaug.Flip(horiz=True), imgaug.Resize(60), imgaug.RandomCrop(50)]),
    "identity": imgaug.Identity,
    "apply": lambda: imgaug.RandomApplyAug(imgaug.Transpose(1), 0.5),
    "choose": lambda: imgaug.RandomChooseAug([imgaug.Flip(horiz=True), imgaug.Resize(50)]),
    "order": lambda: imgaug.RandomOrderAug([imgaug.Flip(horiz=True), imgaug.Shift(0.1, 0.1, border=0)]),
    "map": lambda: imgaug.MapImage(np.flipud, flip_coords),
}
# Augmentors that change values, of images of any number of channels.
PHOTOMETRIC = {
    "brightness": lambda: imgaug.Brightness(60),
    "brightness scale": lambda: imgaug.BrightnessScale((0.5, 2)),
    "clip": lambda: imgaug.Clip(20, 90),
    "contrast": lambda: imgaug.Contrast((0.5, 2)),
    "contrast, one mean": lambda: imgaug.Contrast((0.5, 2), rgb=True),
    "gamma": imgaug.Gamma,
    "blur": imgaug.GaussianBlur,
    "noise": lambda: imgaug.GaussianNoise(20),
    "jpeg": imgaug.JpegNoise,
    "cutout": lambda: imgaug.RandomCutout(5, (3, 8), 9),
    "salt and pepper": imgaug.SaltPepperNoise,
}
COLOR_ONLY = {
    "hue": imgaug.Hue,
    "lighting": lambda: imgaug.Lighting(0.2, [55, 4, 1], EIGENVECTORS),
    "saturation": imgaug.Saturation,
    "grayscale": lambda: imgaug.Grayscale(keepshape=True),
    "colour space": lambda: imgaug.ColorSpace(cv2.COLOR_BGR2RGB),
}
# Augmentors whose images have a dtype of their own.
CONVERTING = {
    "mean and variance": imgaug.MeanVarianceNormalize,
    "minimum and maximum": imgaug.MinMaxNormalize,
    "to float32": imgaug.ToFloat32,
    "to uint8": imgaug.ToUint8,
}
ANY_CHANNELS = {**GEOMETRIC, **PHOTOMETRIC, **CONVERTING}
# What moves pixels in one draw and changes values in another.
MIXED = {"rand augment": lambda: imgaug.RandAugment(1)}
ALL = {**ANY_CHANNELS, **COLOR_ONLY, **MIXED}
SHAPE = (48, 56, 3)


def every(members):
    return pytest.mark.parametrize("make", members.values(), ids=members)


@every(ALL)
def test_seed_decides_and_the_transform_can_be_used_again(make, rng):
    for seed, dtype in enumerate((np.uint8, np.float32) * 2):
        image = picture(rng, SHAPE, dtype)
        augmented, transform = seeded(make(), seed).augment_return_params(image)
        np.testing.assert_array_equal(seeded(make(), seed).augment(image), augmented)
        np.testing.assert_array_equal(transform.apply_image(image), augmented)
        np.testing.assert_array_equal(transform.apply_image(image), augmented)


@every(ALL)
def test_image_is_not_changed_even_if_it_cannot_be(make, rng):
    for dtype in (np.uint8, np.float32):
        image = picture(rng, SHAPE, dtype)
        before = image.copy()
        for seed in range(6):
            image.flags.writeable = seed % 2 == 0
            seeded(make(), seed).augment(image)
        np.testing.assert_array_equal(image, before)


@every(ANY_CHANNELS)
def test_grey_images_keep_their_dimensions(make, rng):
    for dtype in (np.uint8, np.float32, np.float64):
        image = picture(rng, SHAPE[:2], dtype)
        flat, deep = seeded(make()).augment(image), seeded(make()).augment(image[:, :, np.newaxis])
        assert (flat.ndim, deep.ndim) == (2, 3)
        np.testing.assert_array_equal(deep[:, :, 0], flat)


@every({**GEOMETRIC, "cutout": PHOTOMETRIC["cutout"], "brightness": PHOTOMETRIC["brightness"]})
def test_channels_are_treated_alike(make, rng):
    image = picture(rng, (*SHAPE[:2], 7))
    augmented = seeded(make()).augment(image)
    for channel in range(7):
        expected = seeded(make()).augment(np.ascontiguousarray(image[:, :, channel]))
        np.testing.assert_array_equal(augmented[:, :, channel], expected)


@every({**GEOMETRIC, **PHOTOMETRIC, **COLOR_ONLY})
def test_dtype_is_kept(make, rng):
    for dtype in (np.uint8, np.float32, np.float64):
        assert seeded(make()).augment(picture(rng, SHAPE, dtype)).dtype == dtype


@every({name: make for name, make in ALL.items() if name not in ("to uint8", "jpeg", "salt and pepper")})
def test_uint8_is_the_float_result_rounded(make, rng):
    image = picture(rng, SHAPE)
    found = seeded(make()).augment(image)
    wanted = seeded(make()).augment(image.astype(np.float32))
    assert np.abs(found.astype(np.float32) - wanted).max() <= 1.01


@every(ALL)
def test_views_are_images_too(make, rng):
    image = picture(rng, SHAPE)
    for view in (image[:, ::-1], image[::-1, :, ::-1]):
        np.testing.assert_array_equal(seeded(make()).augment(view), seeded(make()).augment(np.ascontiguousarray(view)))


@every({**PHOTOMETRIC, **CONVERTING, **COLOR_ONLY})
def test_photometric_augmentors_leave_coordinates_alone(make, rng):
    coords = rng.random((4, 2)).astype(np.float32)
    moved = make().get_transform(picture(rng, SHAPE)).apply_coords(coords)
    np.testing.assert_array_equal(moved, coords)
    assert moved.dtype == np.float32


@every(GEOMETRIC)
def test_coordinates_go_where_the_image_goes(make):
    """The middle of a round blob is found again, to a tenth of a pixel, where the coordinates say it is."""
    compared = 0
    for seed in range(8):
        x, y = 28.3 + seed % 3, 22.6 + seed % 2
        augmented, transform = seeded(make(), seed).augment_return_params(blob(48, 56, x, y))
        (moved,) = transform.apply_coords(np.array([[x, y]]))
        margin = 9
        if (moved > margin).all() and (moved < np.array(augmented.shape[1::-1]) - margin).all():
            np.testing.assert_allclose(middle(augmented), moved, atol=0.1)
            compared += 1
    assert compared >= 4


@every(GEOMETRIC)
def test_coordinates_are_not_changed_and_keep_their_dtype(make, rng):
    coords = rng.random((4, 2)).astype(np.float32) * 40
    before = coords.copy()
    moved = seeded(make()).get_transform(picture(rng, SHAPE)).apply_coords(coords)
    np.testing.assert_array_equal(coords, before)
    assert moved.shape == (4, 2)
    assert moved.dtype == np.float32


@every(GEOMETRIC)
def test_boxes_hold_the_points_that_they_held(make, rng):
    points = rng.random((20, 2)) * [20, 15] + [10, 12]
    box = np.array([[10.0, 12, 30, 27]])
    transform = seeded(make()).get_transform(picture(rng, SHAPE))
    (moved,), inside = transform.apply_box(box), transform.apply_coords(points)
    assert moved.shape == (4,)
    assert (inside >= moved[:2] - 1e-9).all()
    assert (inside <= moved[2:] + 1e-9).all()


@every(ALL)
def test_augmentors_and_transforms_are_pickled(make, rng):
    image, augmentor = picture(rng, SHAPE), seeded(make())
    copy = seeded(pickle.loads(pickle.dumps(augmentor)))
    np.testing.assert_array_equal(copy.augment(image), augmentor.augment(image))
    transform = augmentor.get_transform(image)
    copy = pickle.loads(pickle.dumps(transform))
    np.testing.assert_array_equal(copy.apply_image(image), transform.apply_image(image))


@every(
    {name: make for name, make in ALL.items() if name not in ("map", "identity", "list", "apply", "choose", "order")}
)
def test_what_is_no_image_is_refused(make, rng):
    with pytest.raises(DataPointError, match="got a list: expected an image"):
        make().augment([[1, 2], [3, 4]])


@every({name: make for name, make in COLOR_ONLY.items() if name != "colour space"})
def test_grey_has_no_colour(make, rng):
    with pytest.raises(DataPointError, match="expected three channels"):
        make().augment(picture(rng, (5, 6)))


def test_every_augmentor_is_in_this_file():
    kinds = [getattr(imgaug, name) for name in imgaug.__all__]
    offered = {kind for kind in kinds if isinstance(kind, type) and issubclass(kind, imgaug.ImageAugmentor)}
    bases = {imgaug.ImageAugmentor, imgaug.PhotometricAugmentor, imgaug.Albumentations, imgaug.IAAugmentor}
    assert offered - bases == {type(make()) for make in ALL.values()}
