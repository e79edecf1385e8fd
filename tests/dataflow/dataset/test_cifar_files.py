"""The two versions of the files of CIFAR, with fewer images than are published."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.dataset_files import python2_pickle
from tests.helpers.images import picture
from tpack.dataflow.dataset.cifar import CIFAR10, CIFAR100, read_label_names, read_part
from tpack.errors import InputError

COUNT = 3


def fewer(form):
    """Return the format with fewer images in each file."""
    return replace(form, files={part: (*names, COUNT) for part, (*names, _) in form.files.items()})


FORMATS = {"10": fewer(CIFAR10), "100": fewer(CIFAR100)}
every_format = pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)


def make(rng, form, part):
    """Return the images and labels of a part."""
    count = COUNT * len(form.files[part][0])
    return picture(rng, (count, 32, 32, 3)), rng.integers(0, form.num_classes, count).astype(np.uint8)


def records(form, image, label):
    coarse = b"\x05" * (form.label_bytes - 1)
    return coarse + bytes([label]) + image.transpose(2, 0, 1).tobytes()


def write_binary(folder, form, part, images, labels):
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(form.files[part][0]):
        of_file = range(number * COUNT, (number + 1) * COUNT)
        (folder / name).write_bytes(b"".join(records(form, images[k], labels[k]) for k in of_file))


def write_python(folder, form, part, images, labels):
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(form.files[part][1]):
        of_file = slice(number * COUNT, (number + 1) * COUNT)
        data = images[of_file].transpose(0, 3, 1, 2).reshape(COUNT, -1)
        content = {
            "batch_label": "x",
            form.label_key: labels[of_file].tolist(),
            "data": data,
            "filenames": ["a"] * COUNT,
        }
        (folder / name).write_bytes(python2_pickle(content))


def test_numbers_are_the_published_ones():
    assert {part: (len(names), count) for part, (names, _, count) in CIFAR10.files.items()} == {
        "train": (5, 10000),
        "test": (1, 10000),
    }
    assert {part: count for part, (_, _, count) in CIFAR100.files.items()} == {"train": 50000, "test": 10000}


@every_format
@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("version", ["binary", "python"])
@pytest.mark.parametrize("is_inside", [True, False])
def test_images_and_labels_come_back(form, part, version, is_inside, tmp_path, rng):
    images, labels = make(rng, form, part)
    write, name = (write_binary, form.binary_dir) if version == "binary" else (write_python, form.python_dir)
    write(tmp_path / name, form, part, images, labels)
    found_images, found_labels = read_part(form, str(tmp_path if is_inside else tmp_path / name), part)
    np.testing.assert_array_equal(found_images, images)
    np.testing.assert_array_equal(found_labels, labels)
    assert found_images.dtype == np.uint8


def test_binary_version_is_preferred(tmp_path, rng):
    form = FORMATS["10"]
    (images, labels), (others, _) = make(rng, form, "test"), make(rng, form, "test")
    write_binary(tmp_path / form.binary_dir, form, "test", images, labels)
    write_python(tmp_path / form.python_dir, form, "test", others, labels)
    np.testing.assert_array_equal(read_part(form, str(tmp_path), "test")[0], images)


@every_format
def test_names_come_from_either_version(form, tmp_path):
    names = [f"class {k}" for k in range(form.num_classes)]
    binary, python = tmp_path / form.binary_dir, tmp_path / form.python_dir
    python.mkdir()
    (python / form.names_files[1]).write_bytes(python2_pickle({form.names_key: names, "num_vis": 3072}))
    assert read_label_names(form, str(tmp_path)) == names
    binary.mkdir()
    (binary / form.names_files[0]).write_text("\n".join(name.upper() for name in names) + "\n\n")
    assert read_label_names(form, str(tmp_path)) == [name.upper() for name in names]


def test_missing_file_says_whence(tmp_path):
    with pytest.raises(
        InputError, match=r"has no cifar-10-batches-bin/data_batch_1\.bin or .*cifar-10-binary\.tar\.gz"
    ):
        read_part(CIFAR10, str(tmp_path), "train")


@pytest.mark.parametrize("change", [lambda content: content[:-3073], lambda content: content + b"x"])
def test_other_number_of_bytes_is_refused(change, tmp_path, rng):
    form = FORMATS["10"]
    write_binary(tmp_path, form, "test", *make(rng, form, "test"))
    path = tmp_path / "test_batch.bin"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=r"test_batch\.bin has .* bytes: expected 9219"):
        read_part(form, str(tmp_path), "test")


@pytest.mark.parametrize("version", ["binary", "python"])
def test_other_labels_are_refused(version, tmp_path, rng):
    form = FORMATS["10"]
    images, _ = make(rng, form, "test")
    write = write_binary if version == "binary" else write_python
    write(tmp_path, form, "test", images, np.array([1, 2, 10], np.uint8))
    with pytest.raises(InputError, match="test_batch.* has the label 10: expected 0 to 9"):
        read_part(form, str(tmp_path), "test")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"labels": [1, 2, 3]}, r"has data of shape None and 3 labels: expected \(3, 3072\) and 3"),
        ({"labels": [1, 2], "data": np.zeros((3, 3072), np.uint8)}, r"has data of shape \(3, 3072\) and 2 labels"),
        (
            {"labels": [1, 2, 300], "data": np.zeros((3, 3072), np.uint8)},
            r"has data of shape \(3, 3072\) and None labels",
        ),
        ({"labels": [1, 2, 3], "data": np.zeros((3, 3071), np.uint8)}, r"has data of shape \(3, 3071\)"),
    ],
)
def test_other_pickles_are_refused(content, message, tmp_path):
    (tmp_path / "test_batch").write_bytes(python2_pickle(content))
    with pytest.raises(InputError, match=f"test_batch {message}"):
        read_part(FORMATS["10"], str(tmp_path), "test")


def test_other_number_of_names_is_refused(tmp_path):
    (tmp_path / "batches.meta.txt").write_text("a\nb\n")
    with pytest.raises(InputError, match="has 2 names of classes: expected 10"):
        read_label_names(CIFAR10, str(tmp_path))
    (tmp_path / "meta").write_bytes(python2_pickle({"x": 1}))
    with pytest.raises(InputError, match="has no fine_label_names of classes: expected 100"):
        read_label_names(CIFAR100, str(tmp_path))
