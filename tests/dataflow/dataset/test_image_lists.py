"""Lists of image files with labels."""

import numpy as np
import pytest

from tests.helpers.dataset_files import write_jpeg
from tests.helpers.images import picture
from tpack.dataflow.dataset.image_lists import LabelledFiles, LabelledImageFiles, list_class_dirs
from tpack.errors import InputError


def ready(ds):
    ds.reset_state()
    return ds


def test_files_are_paths_and_labels():
    assert list(ready(LabelledFiles([("a", 3), ("b", 1)], shuffle=False))) == [["a", 3], ["b", 1]]


def test_images_are_read(tmp_path, rng):
    wanted = write_jpeg(tmp_path / "a.jpg", picture(rng))
    ((image, label),) = ready(LabelledImageFiles([(str(tmp_path / "a.jpg"), 3)], shuffle=True))
    np.testing.assert_array_equal(image, wanted)
    assert label == 3


def test_shuffled_passes_differ():
    ds = ready(LabelledFiles([(str(k), k) for k in range(40)], shuffle=True))
    assert len(ds) == 40
    assert list(ds) != list(ds)


def test_directories_are_classes(tmp_path):
    for name in ("b/2.JPEG", "b/1.jpg", "a/3.png", "a/list.txt", "no_directory.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    names, images = list_class_dirs(str(tmp_path), "https://x")
    assert names == ["a", "b"]
    wanted = [("a/3.png", 0), ("b/1.jpg", 1), ("b/2.JPEG", 1)]
    assert images == [(str(tmp_path / name), label) for name, label in wanted]


def test_missing_and_empty_directories_are_named(tmp_path):
    with pytest.raises(InputError, match="gone is no directory: get the images from https://x and unpack them there"):
        list_class_dirs(str(tmp_path / "gone"), "https://x")
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="has 1 directories and no image in them"):
        list_class_dirs(str(tmp_path), "https://x")
