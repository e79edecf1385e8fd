"""MNIST, and the format of its files."""

import gzip

import numpy as np
import pytest

from tests.helpers.dataset_files import idx_bytes
from tests.helpers.images import picture
from tpack.dataflow.dataset.mnist import FashionMnist, Mnist, read_idx
from tpack.errors import ConfigError, InputError

PREFIXES = {"train": "train", "test": "t10k"}


def write(folder, part, images, labels, *, compressed=True):
    """Write the two files of a part."""
    folder.mkdir(exist_ok=True)
    for kind, array in (("images-idx3", images), ("labels-idx1", np.asarray(labels))):
        name, content = f"{PREFIXES[part]}-{kind}-ubyte", idx_bytes(array)
        if compressed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


@pytest.mark.parametrize("kind", [Mnist, FashionMnist])
@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("compressed", [True, False])
def test_points_are_images_and_digits(kind, part, compressed, tmp_path, rng):
    images, labels = picture(rng, (4, 28, 28)), [7, 0, 9, 3]
    write(tmp_path, part, images, labels, compressed=compressed)
    ds = kind(part, shuffle=False, dir=tmp_path)
    ds.reset_state()
    assert len(ds) == 4
    for (image, label), pixels, digit in zip(ds, images, labels, strict=True):
        np.testing.assert_allclose(image, pixels / 255, rtol=1e-6)
        assert (image.dtype, image.shape, label) == (np.float32, (28, 28), digit)


@pytest.mark.parametrize("kind", [Mnist, FashionMnist])
def test_all_images_are_as_those_of_the_points(kind, tmp_path, rng):
    # Scripts of tensorpack, such as those of metric learning, make their points of them.
    write(tmp_path, "train", picture(rng, (4, 28, 28)), [7, 0, 9, 3])
    ds = kind("train", shuffle=False, dir=tmp_path)
    ds.reset_state()
    assert (ds.images.dtype, ds.images.shape, ds.labels.shape) == (np.float32, (4, 28, 28, 1), (4,))
    np.testing.assert_array_equal(ds.images[..., 0], [image for image, _ in ds])
    assert ds.images is ds.images


def test_shuffling_is_the_default(tmp_path, rng):
    write(tmp_path, "test", picture(rng, (40, 28, 28)), np.arange(40) % 10)
    ds = Mnist("test", dir=tmp_path)
    ds.reset_state()
    assert [label for _, label in ds] != [label for _, label in ds]


@pytest.mark.parametrize(("kind", "name"), [(Mnist, "mnist_data"), (FashionMnist, "fashion_mnist_data")])
def test_files_are_looked_for_in_their_place(kind, name, tmp_path, monkeypatch, rng):
    monkeypatch.setenv("TPACK_DATASET", str(tmp_path))
    with pytest.raises(
        InputError, match=f"{name} has no train-images-idx3-ubyte.gz or train-images-idx3-ubyte: get the"
    ):
        kind("train")
    write(tmp_path / name, "train", picture(rng, (2, 28, 28)), [1, 2])
    assert len(kind("train")) == 2


@pytest.mark.parametrize(
    ("shape", "labels", "message"),
    [
        ((3, 28, 28), [1, 2], r"has 3 images and .*train-labels-idx1-ubyte\.gz 2 labels"),
        ((2, 27, 28), [1, 2], r"has images of shape \(27, 28\): expected \(28, 28\)"),
        ((2, 28, 28), [1, 10], r"labels-idx1-ubyte\.gz has the label 10: expected 0 to 9"),
    ],
)
def test_other_content_is_refused(shape, labels, message, tmp_path, rng):
    write(tmp_path, "train", picture(rng, shape), labels)
    with pytest.raises(InputError, match=message):
        Mnist("train", dir=tmp_path)


def test_other_part_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="Mnist got train_or_test='val': expected one of 'train', 'test'"):
        Mnist("val", dir=tmp_path)


def test_classes_have_names(tmp_path, rng):
    write(tmp_path, "train", picture(rng, (2, 28, 28)), [1, 2])
    assert Mnist("train", dir=tmp_path).get_label_names() == list("0123456789")
    names = FashionMnist("train", dir=tmp_path).get_label_names()
    assert (len(names), names[0], names[9]) == (10, "T-shirt/top", "Ankle boot")


ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_array_comes_back(tmp_path, name):
    content = idx_bytes(ARRAY)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    np.testing.assert_array_equal(read_idx(str(tmp_path / name), 3), ARRAY)


def test_header_is_the_published_one():
    assert idx_bytes(np.zeros((60000, 28, 28), np.uint8))[:16].hex() == "000008030000ea600000001c0000001c"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with '': expected an idx file of 3 dimensions"),
        (idx_bytes(ARRAY)[:15], "begins with '00 00 08 03'"),
        (idx_bytes(ARRAY[0]), "begins with '00 00 08 02'"),
        (b"\x00\x00\x0d\x03" + idx_bytes(ARRAY)[4:], "begins with '00 00 0d 03'"),
        (idx_bytes(ARRAY)[:-1], r"has 23 bytes after its header: expected 24 for shape \[2, 3, 4\]"),
        (idx_bytes(ARRAY) + b"\x00", "has 25 bytes after its header"),
        (b"\x00\x00\x08\x03" + b"\xff" * 12, "has 0 bytes after its header: expected 79228162458924105385300197375"),
    ],
)
def test_file_of_another_format_is_refused(tmp_path, content, message):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InputError, match=f"a {message}"):
        read_idx(str(tmp_path / "a"), 3)
