"""Images on backgrounds."""

import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.paste import (
    BackgroundFiller,
    CenterPaste,
    ConstantBackgroundFiller,
    PasteTransform,
    RandomPaste,
)
from tpack.errors import ConfigError, DataPointError


@pytest.mark.parametrize("channels", [(), (1,), (3,)])
def test_center_paste_is_in_the_middle_of_zeros(channels, rng):
    image = picture(rng, (4, 5, *channels))
    wanted = np.zeros((9, 9, *channels), np.uint8)
    wanted[2:6, 2:7] = image
    np.testing.assert_array_equal(CenterPaste(9).augment(image), wanted)


def test_background_may_have_a_value_in_each_channel(rng):
    found = CenterPaste((30, 31), ConstantBackgroundFiller((1, 2, 3))).augment(picture(rng))
    assert found[0, 0].tolist() == [1, 2, 3]
    assert found.shape == (30, 31, 3)


def test_background_is_limited_to_what_bytes_can_hold(rng):
    assert CenterPaste(40, ConstantBackgroundFiller(300)).augment(picture(rng))[0, 0].tolist() == [255] * 3
    assert CenterPaste(40, ConstantBackgroundFiller(-0.5)).augment(picture(rng, dtype=np.float32))[0, 0, 0] == -0.5


def test_random_paste_reaches_every_place(rng):
    image, augmentor = picture(rng), seeded(RandomPaste((26, 34)))
    found = set()
    for _ in range(200):
        pasted, tfm = augmentor.augment_return_params(image)
        np.testing.assert_array_equal(pasted[tfm.y0 : tfm.y0 + 24, tfm.x0 : tfm.x0 + 31], image)
        found.add((tfm.y0, tfm.x0))
    assert found == {(y0, x0) for y0 in range(3) for x0 in range(4)}


def test_coordinates_are_counted_from_the_corner_of_the_background():
    tfm = PasteTransform(2, 3, 4, 5, ((9, 9), ConstantBackgroundFiller(0)))
    assert tfm.apply_coords(np.array([[0.0, 0], [5, 4]])).tolist() == [[3, 2], [8, 6]]


def test_larger_image_is_refused(rng):
    with pytest.raises(DataPointError, match="expected at most 23 x 40"):
        CenterPaste((23, 40)).augment(picture(rng))


def test_image_of_another_size_is_refused(rng):
    tfm = PasteTransform(2, 3, 4, 5, ((9, 9), ConstantBackgroundFiller(0)))
    with pytest.raises(DataPointError, match="expected height 4, width 5"):
        tfm.apply_image(picture(rng))


def test_filler_must_make_what_is_wanted(rng):
    class Wrong(BackgroundFiller):
        def _fill(self, background_shape, img):
            return np.zeros(background_shape)

    with pytest.raises(
        DataPointError, match=r"Wrong made a background of shape \(40, 40\) and dtype float64: expected"
    ):
        CenterPaste(40, Wrong()).augment(picture(rng))


def test_what_is_no_filler_is_refused(rng):
    with pytest.raises(ConfigError, match="CenterPaste got background_filler=7: expected a BackgroundFiller"):
        CenterPaste(40, 7)
    with pytest.raises(ConfigError, match="BackgroundFiller has no _fill"):
        CenterPaste(40, BackgroundFiller()).augment(picture(rng))
