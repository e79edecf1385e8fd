"""House numbers, from small files in the published format."""

import numpy as np
import pytest
import scipy.io

from tests.helpers.images import picture
from tpack.dataflow.dataset.svhn import SVHNDigit
from tpack.errors import ConfigError, InputError


def write(folder, name, images, labels):
    """Write the file of a part; the digit 0 has the label 10."""
    content = {"X": np.asarray(images).transpose(1, 2, 3, 0), "y": np.array(labels, np.uint8).reshape(-1, 1)}
    scipy.io.savemat(folder / f"{name}_32x32.mat", content, do_compression=True)


def test_points_are_images_and_digits(tmp_path, rng):
    images = picture(rng, (3, 32, 32, 3))
    write(tmp_path, "test", images, [10, 1, 9])
    ds = SVHNDigit("test", tmp_path, shuffle=False)
    ds.reset_state()
    for (image, label), pixels, digit in zip(ds, images, [0, 1, 9], strict=True):
        np.testing.assert_array_equal(image, pixels)
        assert label == digit


def test_mean_is_over_the_parts_asked_for(tmp_path, monkeypatch, rng):
    monkeypatch.setenv("TPACK_DATASET", str(tmp_path))
    (tmp_path / "svhn_data").mkdir()
    images = {name: picture(rng, (count, 32, 32, 3)) for name, count in (("train", 2), ("test", 3), ("extra", 4))}
    for name, pixels in images.items():
        write(tmp_path / "svhn_data", name, pixels, [1] * len(pixels))
    both = np.concatenate([images["train"], images["extra"]])
    np.testing.assert_allclose(SVHNDigit.get_per_pixel_mean(("train", "extra")), both.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(
        SVHNDigit.get_per_pixel_mean(), np.concatenate(list(images.values())).mean(axis=0), rtol=1e-5
    )
    assert len(SVHNDigit("extra")) == 4


@pytest.mark.parametrize(
    ("shape", "labels"),
    [((2, 32, 32, 3), [1]), ((2, 32, 32, 1), [1, 2]), ((2, 32, 32, 3), [0, 1]), ((2, 32, 32, 3), [1, 11])],
)
def test_other_content_is_refused(shape, labels, tmp_path, rng):
    write(tmp_path, "train", picture(rng, shape), labels)
    with pytest.raises(InputError, match="test_other_content_is_refused_1"):
        SVHNDigit("train", tmp_path)


def test_other_part_and_missing_file_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="SVHNDigit got name='val'"):
        SVHNDigit("val", tmp_path)
    with pytest.raises(InputError, match=r"has no extra_32x32\.mat: get the files from http://ufldl"):
        SVHNDigit("extra", tmp_path)
