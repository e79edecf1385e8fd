"""Images of a data flow as files."""

import os

import cv2
import numpy as np
import pytest

from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError
from tpack.utils.viz import dump_dataflow_images


def batches(num_batches=3, size=4):
    """Return a flow of (number, images): image k is of one colour, blue 20 k, green 50 and red 200."""
    colours = [[20 * k, 50, 200] for k in range(num_batches * size)]
    images = np.array(colours, "uint8")[:, np.newaxis, np.newaxis] * np.ones((1, 16, 24, 1), "uint8")
    return DataFromList(list(enumerate(images.reshape(num_batches, size, 16, 24, 3))), shuffle=False)


def read(directory):
    return [cv2.imread(str(directory / name)) for name in sorted(os.listdir(directory))]


def test_images_are_written_in_order(tmp_path):
    dump_dataflow_images(batches(), index=1, output_dir=tmp_path / "new")
    assert sorted(os.listdir(tmp_path / "new"))[::11] == ["001.jpg", "012.jpg"]
    images = read(tmp_path / "new")
    assert len(images) == 12
    for k, image in enumerate(images):
        np.testing.assert_allclose(image, np.broadcast_to([20 * k, 50, 200], (16, 24, 3)), atol=3)


def test_no_more_are_taken_than_wanted(tmp_path):
    taken = []

    class Counting(DataFromList):
        def __iter__(self):
            for dp in super().__iter__():
                taken.append(dp)
                yield dp

    dump_dataflow_images(Counting(batches().lst, shuffle=False), index=1, number=4, output_dir=tmp_path)
    assert len(taken) == 1
    assert len(os.listdir(tmp_path)) == 4
    dump_dataflow_images(batches(), index=1, number=0, output_dir=tmp_path / "none")
    assert os.listdir(tmp_path / "none") == []


def test_images_are_scaled_resized_and_flipped(tmp_path):
    flow = DataFromList([[np.full((10, 10, 3), [0.1, 0.5, 2.0])], [np.full((10, 10), 0.5)]], shuffle=False)
    dump_dataflow_images(flow, batched=False, output_dir=tmp_path, scale=100, resize=(30, 20), flipRGB=True)
    first, second = read(tmp_path)
    assert first.shape == second.shape == (20, 30, 3)
    np.testing.assert_allclose(first[0, 0], [200, 50, 10], atol=3)
    np.testing.assert_allclose(second, 50, atol=3)


def test_grids_are_written_in_place_of_images(tmp_path):
    dump_dataflow_images(batches(), index=1, output_dir=tmp_path, viz=(2, 4), number=10)
    first, second = read(tmp_path)
    assert first.shape == second.shape == (32, 96, 3)
    np.testing.assert_allclose(first[24, 4 + 24 * 2], [20 * 6, 50, 200], atol=6)
    np.testing.assert_allclose(second[24, 4], [255, 255, 255], atol=6)


def test_a_directory_is_wanted():
    with pytest.raises(ConfigError, match="expected an output_dir"):
        dump_dataflow_images(batches())
