"""Images that lists of files name, with their labels."""

import pickle

import numpy as np
import pytest

from tests.helpers.dataset_files import write_jpeg
from tests.helpers.images import picture
from tpack.dataflow.dataset.image_lists import (
    LabelledFiles,
    LabelledImageFiles,
    LabelledImages,
    Places365Standard,
    UnitImages,
    check_labels,
    class_names,
    list_class_dirs,
    mean_image,
)
from tpack.errors import ConfigError, DataPointError, InputError
from tpack.utils import serialize
from tpack.utils.rng import fix_rng_seed


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
    images = list_class_dirs(str(tmp_path), ["b", "c", "a"], "https://x")
    wanted = [("a/3.png", 2), ("b/1.jpg", 0), ("b/2.JPEG", 0)]
    assert images == [(str(tmp_path / name), label) for name, label in wanted]


def make_dirs(folder, *names):
    for name in names:
        (folder / name).mkdir(parents=True)


def test_directories_of_no_class_are_named(tmp_path):
    make_dirs(tmp_path, "a", "b", "c", "d", "e", ".cache")
    with pytest.raises(InputError, match="has 1 directories outside of the 4 classes: b"):
        list_class_dirs(str(tmp_path), ["a", "c", "d", "e"], "https://x")
    with pytest.raises(InputError, match=r"has 4 directories outside of the 1 classes: b, c, d, \.\.\.$"):
        list_class_dirs(str(tmp_path), ["a"], "https://x")


@pytest.mark.parametrize("part", ["train", "val"])
def test_classes_of_all_parts_are_those_of_train(tmp_path, part):
    make_dirs(tmp_path, "train/b", "train/a", "train/c", "train/.cache", "val/c", "val/b")
    assert class_names(str(tmp_path), part, "https://x", count=2) == ["a", "b", "c"]


def test_without_train_a_part_numbers_the_classes_if_it_has_all(tmp_path):
    make_dirs(tmp_path, "val/b", "val/a")
    assert class_names(str(tmp_path), "val", "https://x", count=2) == ["a", "b"]
    with pytest.raises(
        InputError,
        match="has no train, whose directories number the classes, and val has 2 directories: expected train, or",
    ):
        class_names(str(tmp_path), "val", "https://x", count=3)


@pytest.mark.parametrize("labels", [0, 4, [0, 4], [], np.array([[1], [4]], np.uint8), np.int64(3), np.zeros((0,))])
def test_labels_of_classes_are_returned(labels):
    assert check_labels(labels, 5) is labels


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (5, "labels from 5 to 5: expected 0 to 4 for 5 classes"),
        (np.array([3, -1, 4]), "labels from -1 to 4: expected 0 to 4"),
        ([2.0], "labels of dtype float64: expected integers"),
        ([True], "labels of dtype bool: expected integers"),
        (["cat"], "labels of dtype <U3: expected integers"),
    ],
)
def test_other_labels_are_refused(labels, message):
    with pytest.raises(DataPointError, match=message):
        check_labels(labels, 5)


@pytest.mark.parametrize("num_classes", [0, "5", 5.0])
def test_number_of_classes_is_a_count(num_classes):
    with pytest.raises(ConfigError, match="check_labels got num_classes="):
        check_labels([0], num_classes)


def test_missing_and_empty_directories_are_named(tmp_path):
    with pytest.raises(InputError, match="gone is not a directory: unpack the images of https://x there"):
        list_class_dirs(str(tmp_path / "gone"), ["a"], "https://x")
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="has 1 directories and no image in them"):
        list_class_dirs(str(tmp_path), ["a"], "https://x")


def test_points_are_images_of_their_own_and_integers(rng):
    images, labels = picture(rng, (5, 4, 4, 3)), np.arange(5, dtype=np.uint8)
    points = list(ready(LabelledImages(images, labels, shuffle=False)))
    for (image, label), stored, number in zip(points, images, range(5), strict=True):
        np.testing.assert_array_equal(image, stored)
        assert not np.shares_memory(image, images)
        assert (type(label), label) == (int, number)


def test_unit_images_are_from_zero_to_one():
    ((image, label),) = ready(UnitImages(np.array([[[0, 51, 255]]], np.uint8), np.array([3]), shuffle=False))
    assert image.dtype == np.float32
    np.testing.assert_allclose(image, [[0, 0.2, 1]])
    assert label == 3


def test_shuffled_passes_go_on_from_a_state(rng):
    try:
        fix_rng_seed(3)
        ds = ready(LabelledImages(picture(rng, (9, 2, 2)), np.arange(9), shuffle=True))
    finally:
        fix_rng_seed(None)
    points = iter(ds)
    taken = [next(points)[1] for _ in range(4)]
    state = serialize.loads(serialize.dumps(ds.state_dict()))
    other = ready(pickle.loads(pickle.dumps(ds)))
    other.load_state_dict(state)
    rest = [label for _, label in other]
    assert sorted(taken + rest) == list(range(9))
    assert rest == [label for _, label in points]
    assert [label for _, label in other] == [label for _, label in ds]


def test_mean_is_over_all_images(rng):
    parts = [picture(rng, (5, 4, 4, 3)), picture(rng, (2, 4, 4, 3))]
    found = mean_image(parts)
    np.testing.assert_allclose(found, np.concatenate(parts).mean(axis=0), rtol=1e-6)
    assert found.dtype == np.float32


@pytest.mark.parametrize("part", ["train", "val"])
def test_points_are_images_and_classes(part, tmp_path, rng):
    images = [
        write_jpeg(tmp_path / part / name / f"Places365_{k}.jpg", picture(rng, (256, 256, 3)))
        for name in ("airfield", "bakery-shop")
        for k in (1, 2)
    ]
    make_dirs(tmp_path, "train/airfield", "train/bakery-shop") if part == "val" else None
    ds = Places365Standard(tmp_path, part, shuffle=False)
    ds.reset_state()
    for (image, label), pixels, number in zip(ds, images, [0, 0, 1, 1], strict=True):
        np.testing.assert_array_equal(image, pixels)
        assert label == number
    assert ds.get_label_names() == ["airfield", "bakery-shop"]
    assert Places365Standard(tmp_path, part).shuffle == (part == "train")


def test_class_that_a_part_lacks_shifts_no_label(tmp_path, rng):
    make_dirs(tmp_path, "train/airfield", "train/bakery-shop", "val/bakery-shop")
    write_jpeg(tmp_path / "val/bakery-shop/1.jpg", picture(rng, (8, 8, 3)))
    ds = Places365Standard(tmp_path, "val")
    ds.reset_state()
    assert [label for _, label in ds] == [1]
    assert ds.get_label_names() == ["airfield", "bakery-shop"]


def test_other_part_and_missing_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="Places365Standard got name='test'"):
        Places365Standard(tmp_path, "test")
    with pytest.raises(InputError, match="train is not a directory: unpack the images of http"):
        Places365Standard(tmp_path, "train")
