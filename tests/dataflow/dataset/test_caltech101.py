"""Outlines of things, from a small file in the published format."""

import numpy as np
import pytest
import scipy.io

from tests.helpers.images import picture
from tpack.dataflow.dataset.caltech101 import Caltech101Silhouettes
from tpack.errors import ConfigError, InputError


def write(folder, **content):
    scipy.io.savemat(folder / "caltech101_silhouettes_28_split1.mat", content)


def test_points_are_upright_outlines_and_classes(tmp_path, rng):
    images = picture(rng, (3, 28, 28)) % 2
    columns = np.array([image.ravel(order="F") for image in images])
    write(tmp_path, val_data=columns, val_labels=np.array([[1], [101], [7]], np.uint8))
    ds = Caltech101Silhouettes("val", shuffle=False, dir=tmp_path)
    ds.reset_state()
    for (image, label), pixels, wanted in zip(ds, images, [0, 100, 6], strict=True):
        np.testing.assert_array_equal(image, pixels)
        assert (image.dtype, label) == (np.float32, wanted)


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (np.zeros((2, 783), np.uint8), [1, 2], r"has val_data of shape \(2, 783\) and 2 val_labels"),
        (np.zeros((2, 784), np.uint8), [1], "and 1 val_labels: expected"),
        (np.full((2, 784), 2, np.uint8), [1, 2], "values or labels out of range"),
        (np.zeros((2, 784), np.uint8), [0, 2], "values or labels out of range: expected 0 and 1, and 1 to 101"),
    ],
)
def test_other_content_is_refused(rows, labels, message, tmp_path):
    write(tmp_path, val_data=rows, val_labels=np.array(labels).reshape(-1, 1))
    with pytest.raises(InputError, match=message):
        Caltech101Silhouettes("val", dir=tmp_path)


def test_other_part_and_missing_file_are_refused(tmp_path):
    with pytest.raises(
        ConfigError, match="Caltech101Silhouettes got name='extra': expected one of 'train', 'val', 'test'"
    ):
        Caltech101Silhouettes("extra", dir=tmp_path)
    with pytest.raises(InputError, match="has no caltech101_silhouettes_28_split1.mat: get the files from https"):
        Caltech101Silhouettes("test", dir=tmp_path)
