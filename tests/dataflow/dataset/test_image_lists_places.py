"""Places, from a small tree in the published layout."""

import numpy as np
import pytest

from tests.helpers.dataset_files import write_jpeg
from tests.helpers.images import picture
from tpack.dataflow.dataset.image_lists import Places365Standard
from tpack.errors import ConfigError, InputError


@pytest.mark.parametrize("part", ["train", "val"])
def test_points_are_images_and_classes(part, tmp_path, rng):
    images = [
        write_jpeg(tmp_path / part / name / f"Places365_{k}.jpg", picture(rng, (256, 256, 3)))
        for name in ("airfield", "bakery-shop")
        for k in (1, 2)
    ]
    ds = Places365Standard(tmp_path, part, shuffle=False)
    ds.reset_state()
    for (image, label), pixels, number in zip(ds, images, [0, 0, 1, 1], strict=True):
        np.testing.assert_array_equal(image, pixels)
        assert label == number
    assert ds.get_label_names() == ["airfield", "bakery-shop"]
    assert Places365Standard(tmp_path, part).shuffle == (part == "train")


def test_other_part_and_missing_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="Places365Standard got 'test'"):
        Places365Standard(tmp_path, "test")
    with pytest.raises(InputError, match="train is no directory: get the images from http"):
        Places365Standard(tmp_path, "train")
