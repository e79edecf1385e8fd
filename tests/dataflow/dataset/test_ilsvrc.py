"""ILSVRC 2012, from a small tree in the published layout."""

import os
import shutil

import cv2
import numpy as np
import pytest

from tests.helpers.dataset_files import write_jpeg
from tests.helpers.images import picture
from tpack.dataflow.dataset.ilsvrc import ILSVRC12, ILSVRC12Files, ILSVRCMeta
from tpack.errors import ConfigError, InputError

SYNSETS = ["n01440764", "n01443537", "n01484850"]
VAL_LABELS = [2, 0, 1, 2]
BOX = """<annotation><folder>x</folder><size><width>500</width><height>375</height><depth>3</depth></size>
<object><name>n01440764</name><bndbox><ymin>12</ymin><xmin>11</xmin><xmax>110.5</xmax><ymax>210</ymax></bndbox></object>
<object><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></object></annotation>"""


@pytest.fixture
def meta_dir(tmp_path):
    """The lists of the tree."""
    folder = tmp_path / "meta"
    folder.mkdir()
    (folder / "synsets.txt").write_text("\n".join(SYNSETS))
    train = [f"{synset}/{synset}_{k}.JPEG {label}" for label, synset in enumerate(SYNSETS) for k in (1, 10)]
    (folder / "train.txt").write_text("\n".join(train))
    val = [f"ILSVRC2012_val_{number:08}.JPEG {label}" for number, label in enumerate(VAL_LABELS, 1)]
    (folder / "val.txt").write_text("\n".join(val))
    return folder


@pytest.fixture
def tree(tmp_path, rng):
    """A tree with two training images of each synset, and four to validate with."""
    folder = tmp_path / "ilsvrc"
    for synset in SYNSETS:
        for number in (1, 10):
            write_jpeg(folder / "train" / synset / f"{synset}_{number}.JPEG", picture(rng, (10, 12, 3)))
    for number in range(1, 5):
        write_jpeg(folder / "val" / f"ILSVRC2012_val_{number:08}.JPEG", picture(rng, (9, 8, 3)))
    return folder


@pytest.fixture(autouse=True)
def no_lists_in_the_usual_place(tmp_path, monkeypatch):
    monkeypatch.setenv("TPACK_DATASET", str(tmp_path / "data"))


def sort_val(tree):
    """Put the images to validate with into directories of their synsets."""
    for number, label in enumerate(VAL_LABELS, 1):
        name = f"ILSVRC2012_val_{number:08}.JPEG"
        (tree / "val" / SYNSETS[label]).mkdir(exist_ok=True)
        (tree / "val" / name).rename(tree / "val" / SYNSETS[label] / name)


def points(ds):
    ds.reset_state()
    return list(ds)


def test_training_images_have_classes(tree, meta_dir):
    found = points(ILSVRC12Files(tree, "train", meta_dir, shuffle=False))
    wanted = [[str(tree / "train" / s / f"{s}_{k}.JPEG"), label] for label, s in enumerate(SYNSETS) for k in (1, 10)]
    assert found == wanted


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("is_told", [False, True])
def test_both_structures_of_val_are_read(is_sorted, is_told, tree, meta_dir):
    if is_sorted:
        sort_val(tree)
    structure = ("train" if is_sorted else "original") if is_told else None
    found = points(ILSVRC12Files(tree, "val", meta_dir, dir_structure=structure))
    assert [label for _, label in found] == VAL_LABELS
    inside = [f"{SYNSETS[label]}/" if is_sorted else "" for label in VAL_LABELS]
    names = [f"{place}ILSVRC2012_val_{number:08}.JPEG" for number, place in enumerate(inside, 1)]
    assert [path for path, _ in found] == [str(tree / "val" / name) for name in names]


def test_images_are_those_of_the_files(tree, meta_dir):
    files = points(ILSVRC12Files(tree, "val", meta_dir))
    images = points(ILSVRC12(str(tree), "val", str(meta_dir)))
    for (path, label), (image, same_label) in zip(files, images, strict=True):
        assert (image.shape, label) == ((9, 8, 3), same_label)
        np.testing.assert_array_equal(image, cv2.imread(path))


def test_training_is_shuffled_unless_told_not_to(tree, meta_dir):
    assert ILSVRC12(tree, "train", meta_dir).shuffle
    assert not ILSVRC12(tree, "val", meta_dir).shuffle
    assert not ILSVRC12(tree, "train", meta_dir, shuffle=False).shuffle


def test_without_lists_synsets_are_numbered_in_alphabetical_order(tree, meta_dir, log_dir):
    with_lists = points(ILSVRC12Files(tree, "train", meta_dir, shuffle=False))
    assert sorted(points(ILSVRC12Files(tree, "train", shuffle=False))) == sorted(with_lists)
    assert "3 synsets, numbered in alphabetical order" in (log_dir / "log.log").read_text()
    sort_val(tree)
    found = points(ILSVRC12Files(tree, "val"))
    assert sorted(found) == sorted(points(ILSVRC12Files(tree, "val", meta_dir)))


@pytest.mark.parametrize("has_synsets", [False, True])
def test_class_that_val_lacks_shifts_no_label(has_synsets, tree, tmp_path):
    sort_val(tree)
    shutil.rmtree(tree / "val" / SYNSETS[1])
    if has_synsets:
        shutil.rmtree(tree / "train")
        (tmp_path / "data" / "ilsvrc_metadata").mkdir(parents=True)
        (tmp_path / "data" / "ilsvrc_metadata" / "synsets.txt").write_text("\n".join(SYNSETS))
    found = [(os.path.basename(os.path.dirname(path)), label) for path, label in points(ILSVRC12Files(tree, "val"))]
    assert found == [(SYNSETS[0], 0), (SYNSETS[2], 2), (SYNSETS[2], 2)]


def test_synsets_number_the_directories_of_train_too(tree, meta_dir):
    (meta_dir / "train.txt").unlink()
    (meta_dir / "synsets.txt").write_text("\n".join(reversed(SYNSETS)))
    found = points(ILSVRC12Files(tree, "train", meta_dir, shuffle=False))
    assert [label for _, label in found] == [2, 2, 1, 1, 0, 0]


def test_synset_that_has_no_number_is_refused(tree, meta_dir):
    sort_val(tree)
    (tree / "val" / "n09999999").mkdir()
    with pytest.raises(InputError, match="val has 1 directories outside of the 3 classes: n09999999"):
        ILSVRC12Files(tree, "val")
    (meta_dir / "val.txt").unlink()
    with pytest.raises(InputError, match="val has 1 directories outside of the 3 classes: n09999999"):
        ILSVRC12Files(tree, "val", meta_dir)


def test_val_alone_numbers_nothing(tree):
    sort_val(tree)
    shutil.rmtree(tree / "train")
    with pytest.raises(
        InputError,
        match="has no train, whose directories number the classes, and val has 3 directories: expected train, or",
    ):
        ILSVRC12Files(tree, "val")


def test_lists_in_the_usual_place_are_taken(tree, meta_dir, tmp_path):
    (tmp_path / "data").mkdir()
    meta_dir.rename(tmp_path / "data" / "ilsvrc_metadata")
    assert [label for _, label in points(ILSVRC12Files(tree, "val"))] == VAL_LABELS


def test_missing_lists_are_asked_for(tree):
    with pytest.raises(InputError, match=r"ilsvrc_metadata has no val\.txt: get the files from .*caffe_ilsvrc12"):
        ILSVRC12Files(tree, "val")


def test_missing_directory_is_named(tree, meta_dir):
    with pytest.raises(
        InputError, match=r"ilsvrc/test is not a directory: unpack the images of https://image-net\.org"
    ):
        ILSVRC12(tree, "test", meta_dir)


def test_missing_image_is_noticed_at_once(tree, meta_dir):
    (tree / "val" / "ILSVRC2012_val_00000003.JPEG").unlink()
    with pytest.raises(
        InputError, match=r"ILSVRC2012_val_00000003\.JPEG of the list is missing: expected the images of"
    ):
        ILSVRC12Files(tree, "val", meta_dir)
    with pytest.raises(InputError, match=r"n01484850/ILSVRC2012_val_00000001\.JPEG of the list is missing"):
        ILSVRC12Files(tree, "val", meta_dir, dir_structure="train")


def test_damaged_image_is_named(tree, meta_dir):
    (tree / "val" / "ILSVRC2012_val_00000002.JPEG").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"ILSVRC2012_val_00000002\.JPEG: OpenCV finds no image in its 7 bytes"):
        points(ILSVRC12(tree, "val", meta_dir))


@pytest.mark.parametrize(("name", "structure"), [("extra", None), ("val", "flat")])
def test_other_names_are_refused(name, structure, tree, meta_dir):
    with pytest.raises(ConfigError, match=f"ILSVRC12 got .*'{structure or name}': expected"):
        ILSVRC12(tree, name, meta_dir, dir_structure=structure)


def test_boxes_are_those_of_the_first_object(tmp_path, meta_dir):
    images = ILSVRCMeta(meta_dir).get_image_list("train")[:3]
    folder = tmp_path / "boxes" / SYNSETS[0]
    folder.mkdir(parents=True)
    (folder / f"{SYNSETS[0]}_10.xml").write_text(BOX)
    none, box, also_none = ILSVRC12.get_training_bbox(tmp_path / "boxes", images)
    assert none is None
    assert also_none is None
    assert box.tolist() == [11, 12, 110.5, 210]
    assert box.dtype == np.float32


@pytest.mark.parametrize(
    "text", ["", "<annotation>", "<annotation/>", BOX.replace("110.5", "x"), BOX.replace("xmin", "x")]
)
def test_annotation_without_a_box_is_refused(text, tmp_path):
    (tmp_path / "a.xml").write_text(text.replace("<xmin>1</xmin>", "").replace("<x>1</x>", ""))
    with pytest.raises(InputError, match=r"a\.xml has no object with a box of xmin, ymin, xmax, ymax"):
        ILSVRC12.get_training_bbox(tmp_path, [("a.JPEG", 0)])
