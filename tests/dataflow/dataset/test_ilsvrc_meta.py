"""The lists of ILSVRC 2012, shortened."""

import cv2
import numpy as np
import pytest

from tests.helpers.dataset_files import mean_blob
from tpack.dataflow.dataset.ilsvrc import ILSVRC12Files, ILSVRCMeta
from tpack.errors import ConfigError, InputError

SYNSETS = ["n01440764", "n01443537", "n01484850"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "synsets.txt").write_text("\n".join(SYNSETS) + "\n")
    (tmp_path / "synset_words.txt").write_text("\n".join(f"{synset} fish, {synset[-1]}" for synset in SYNSETS))
    (tmp_path / "train.txt").write_text("n01440764/n01440764_10026.JPEG 0\nn01484850/n01484850_3.JPEG 2\n")
    (tmp_path / "val.txt").write_text("ILSVRC2012_val_00000001.JPEG 2\nILSVRC2012_val_00000002.JPEG 1\n")
    (tmp_path / "test.txt").write_text("ILSVRC2012_test_00000001.JPEG 0\n")
    return tmp_path


def test_synsets_have_numbers_and_words(folder):
    meta = ILSVRCMeta(folder)
    assert meta.get_synset_1000() == dict(enumerate(SYNSETS))
    assert meta.get_synset_words_1000()[1] == "n01443537 fish, 7"


def test_lists_are_paths_and_classes(folder):
    meta = ILSVRCMeta(folder)
    train = [("n01440764/n01440764_10026.JPEG", 0), ("n01484850/n01484850_3.JPEG", 2)]
    assert meta.get_image_list("train") == meta.get_image_list("train", "train") == train
    assert meta.get_image_list("val") == [("ILSVRC2012_val_00000001.JPEG", 2), ("ILSVRC2012_val_00000002.JPEG", 1)]
    assert meta.get_image_list("val", "train") == [
        ("n01484850/ILSVRC2012_val_00000001.JPEG", 2),
        ("n01443537/ILSVRC2012_val_00000002.JPEG", 1),
    ]
    assert meta.get_image_list("test") == [("ILSVRC2012_test_00000001.JPEG", 0)]


def test_usual_place_is_below_that_of_all_data_sets(folder, monkeypatch):
    monkeypatch.setenv("TPACK_DATASET", str(folder))
    assert ILSVRCMeta().dir == str(folder / "ilsvrc_metadata")
    with pytest.raises(
        InputError, match="ilsvrc_metadata has no synsets.txt: get the files from .*caffe_ilsvrc12.tar.gz"
    ):
        ILSVRCMeta().get_synset_1000()


@pytest.mark.parametrize("line", ["ILSVRC2012_val_00000001.JPEG", "a.JPEG b", "a.JPEG -1", " 3"])
def test_line_that_is_none_is_named(folder, line):
    (folder / "val.txt").write_text(f"ok.JPEG 1\n{line}\n")
    with pytest.raises(InputError, match=r"val\.txt, line 2 is .*: expected a path and a class"):
        ILSVRCMeta(folder).get_image_list("val")


def test_empty_list_is_refused(folder):
    (folder / "val.txt").write_text("\n")
    with pytest.raises(InputError, match=r"val\.txt is empty"):
        ILSVRCMeta(folder).get_image_list("val")


def test_class_without_synset_is_refused(folder):
    (folder / "val.txt").write_text("a.JPEG 3\n")
    with pytest.raises(InputError, match=r"val\.txt has the class 3: expected one of the 3 of synsets\.txt"):
        ILSVRCMeta(folder).get_image_list("val", "train")


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_class_that_the_synsets_lack_is_refused_in_every_part(folder, part):
    (folder / f"{part}.txt").write_text("n01440764/a.JPEG 7\n")
    with pytest.raises(InputError, match=rf"{part}\.txt has the class 7: expected one of the 3"):
        ILSVRCMeta(folder).get_image_list(part)
    (folder / "synsets.txt").unlink()
    assert ILSVRCMeta(folder).get_image_list(part) == [("n01440764/a.JPEG", 7)]


@pytest.mark.parametrize("line", ["n01484850/a.JPEG 0", "n09999999/a.JPEG 1", "a.JPEG 2"])
def test_training_image_below_another_synset_is_refused(folder, line):
    (folder / "train.txt").write_text(f"n01440764/ok.JPEG 0\n{line}\n")
    with pytest.raises(InputError, match=r"train\.txt has '\w*' as class \d: expected 'n\d+' of synsets"):
        ILSVRCMeta(folder).get_image_list("train")


@pytest.mark.parametrize(
    ("names", "message"),
    [(("extra",), "name='extra': expected one of 'train', 'val', 'test'"), (("val", "other"), "dir_structure")],
)
def test_other_names_are_refused(folder, names, message):
    with pytest.raises(ConfigError, match=f"ILSVRCMeta got {message}"):
        ILSVRCMeta(folder).get_image_list(*names)


def test_mean_image_is_blue_green_red_and_resized(folder, rng):
    mean = rng.random((3, 256, 256)).astype(np.float32) * 255
    (folder / "imagenet_mean.binaryproto").write_bytes(mean_blob(mean))
    found = ILSVRCMeta(folder).get_per_pixel_mean()
    np.testing.assert_array_equal(found, mean.transpose(1, 2, 0))
    small = ILSVRCMeta(folder).get_per_pixel_mean((20, 30))
    np.testing.assert_array_equal(small, cv2.resize(found, (30, 20)))


def test_structure_is_seen(tmp_path):
    (tmp_path / "val").mkdir()
    with pytest.raises(InputError, match="val is empty: expected images, or directories of images"):
        ILSVRCMeta.guess_dir_structure(tmp_path / "val")
    (tmp_path / "val" / "b.JPEG").touch()
    assert ILSVRCMeta.guess_dir_structure(tmp_path / "val") == "original"
    (tmp_path / "val" / "a").mkdir()
    assert ILSVRCMeta.guess_dir_structure(tmp_path / "val") == "train"
    with pytest.raises(InputError, match="gone cannot be listed"):
        ILSVRCMeta.guess_dir_structure(tmp_path / "gone")


def test_structure_may_be_given(tmp_path, folder):
    (tmp_path / "images" / "test").mkdir(parents=True)
    with pytest.raises(
        ConfigError, match="ILSVRC12Files got dir_structure='flat': expected one of 'original', 'train'"
    ):
        ILSVRC12Files(tmp_path / "images", "test", folder, dir_structure="flat")
    for structure, error in ((None, "is empty: expected images"), ("original", "of the list is missing")):
        with pytest.raises(InputError, match=error):
            ILSVRC12Files(tmp_path / "images", "test", folder, dir_structure=structure)
