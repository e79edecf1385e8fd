"""Tiny ImageNet, from a small tree in the published layout."""

import numpy as np
import pytest

from tests.helpers.dataset_files import write_jpeg
from tests.helpers.images import picture
from tpack.dataflow.dataset.image_lists import TinyImageNet
from tpack.errors import ConfigError, InputError

SYNSETS = ["n02124075", "n01443537"]


@pytest.fixture
def tree(tmp_path, rng):
    """A tree of two synsets; by file, the images in it."""
    (tmp_path / "wnids.txt").write_text("\n".join(SYNSETS) + "\n")
    images = {}
    for synset in SYNSETS:
        for number in range(2):
            name = f"{synset}_{number}.JPEG"
            images[name] = write_jpeg(tmp_path / "train" / synset / "images" / name, picture(rng, (64, 64, 3)))
        (tmp_path / "train" / synset / f"{synset}_boxes.txt").touch()
    lines = []
    for number, synset in enumerate([*SYNSETS, SYNSETS[0]]):
        name = f"val_{number}.JPEG"
        images[name] = write_jpeg(tmp_path / "val" / "images" / name, picture(rng, (64, 64, 3)))
        lines.append(f"{name}\t{synset}\t0\t32\t44\t62")
    (tmp_path / "val" / "val_annotations.txt").write_text("\n".join(lines))
    return tmp_path, images


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ("train", [("n01443537_0", 0), ("n01443537_1", 0), ("n02124075_0", 1), ("n02124075_1", 1)]),
        ("val", [("val_0", 1), ("val_1", 0), ("val_2", 1)]),
    ],
)
def test_points_are_images_and_classes(tree, part, wanted):
    folder, images = tree
    ds = TinyImageNet(folder, part, shuffle=False)
    ds.reset_state()
    for (image, label), (name, number) in zip(ds, wanted, strict=True):
        np.testing.assert_array_equal(image, images[f"{name}.JPEG"])
        assert label == number


def test_training_is_shuffled_unless_told_not_to(tree):
    assert TinyImageNet(tree[0], "train").shuffle
    assert not TinyImageNet(tree[0], "val").shuffle


@pytest.mark.parametrize(
    ("file", "text", "part", "message"),
    [
        (
            "val/val_annotations.txt",
            "a.JPEG\tn0\t1\n",
            "val",
            r"val_annotations\.txt, line 1 is 'a\.JPEG\\tn0\\t1': expected a file and a synset of wnids",
        ),
        ("val/val_annotations.txt", "", "val", r"val_annotations\.txt is empty"),
        ("wnids.txt", "n7\n", "train", "train/n7/images is missing or empty: get the images from http"),
        ("wnids.txt", "", "train", r"wnids\.txt is empty"),
    ],
)
def test_other_content_is_refused(file, text, part, message, tree):
    (tree[0] / file).write_text(text)
    with pytest.raises(InputError, match=message):
        TinyImageNet(tree[0], part)


def test_other_part_and_missing_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="TinyImageNet got name='test': expected one of 'train', 'val'"):
        TinyImageNet(tmp_path, "test")
    with pytest.raises(InputError, match="has no wnids.txt: get the files from http"):
        TinyImageNet(tmp_path, "train")
