"""CIFAR as flows, from small files."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.images import picture
from tpack.dataflow.dataset import cifar
from tpack.dataflow.dataset.cifar import CIFAR10, CIFAR100, Cifar10, Cifar100, CifarBase
from tpack.errors import ConfigError, InputError

KINDS = {10: Cifar10, 100: Cifar100}


@pytest.fixture(params=[10, 100])
def written(request, tmp_path, monkeypatch, rng):
    """The number of classes, and by part the images and labels that are in the files of the usual directory."""
    form = replace(
        {10: CIFAR10, 100: CIFAR100}[request.param],
        files={"train": (("a.bin", "b.bin"), ("a", "b"), 2), "test": (("c.bin",), ("c",), 3)},
    )
    monkeypatch.setitem(cifar._FORMATS, request.param, form)
    monkeypatch.setenv("TPACK_DATASET", str(tmp_path))
    folder = tmp_path / f"cifar{request.param}_data" / form.binary_dir
    folder.mkdir(parents=True)
    parts = {"train": (picture(rng, (4, 32, 32, 3)), [1, 2, 3, 4]), "test": (picture(rng, (3, 32, 32, 3)), [5, 6, 7])}
    for part, (images, labels) in parts.items():
        names, _, count = form.files[part]
        content = [
            b"\x00" * (form.label_bytes - 1) + bytes([label]) + image.transpose(2, 0, 1).tobytes()
            for image, label in zip(images, labels, strict=True)
        ]
        for number, name in enumerate(names):
            (folder / name).write_bytes(b"".join(content[number * count : (number + 1) * count]))
    (folder / form.names_files[0]).write_text("\n".join(f"class {k}" for k in range(request.param)))
    return request.param, parts


def test_points_are_images_and_classes(written):
    number, parts = written
    for part, (images, labels) in parts.items():
        ds = KINDS[number](part, shuffle=False)
        ds.reset_state()
        for (image, label), pixels, wanted in zip(ds, images, labels, strict=True):
            np.testing.assert_array_equal(image, pixels)
            assert label == wanted


def test_training_is_shuffled_unless_told_not_to(written):
    number, _ = written
    assert KINDS[number]("train").shuffle
    assert not KINDS[number]("test").shuffle
    assert KINDS[number]("test", shuffle=True).shuffle


def test_means_are_over_the_parts_asked_for(written):
    number, parts = written
    ds, both = KINDS[number]("train"), np.concatenate([images for images, _ in parts.values()])
    np.testing.assert_allclose(ds.get_per_pixel_mean(), both.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(ds.get_per_pixel_mean(("test", "test")), parts["test"][0].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(ds.get_per_channel_mean(), both.mean(axis=(0, 1, 2)), rtol=1e-5)
    assert ds.get_per_pixel_mean(("train",)).dtype == np.float32
    with pytest.raises(ConfigError, match="got name='val': expected one"):
        ds.get_per_pixel_mean(("val",))


def test_names_are_those_of_the_file(written):
    number, _ = written
    assert KINDS[number]("test").get_label_names()[:2] == ["class 0", "class 1"]


def test_base_takes_the_number_of_classes(written):
    number, _ = written
    assert len(CifarBase("test", cifar_classnum=number)) == 3
    with pytest.raises(ConfigError, match="CifarBase got cifar_classnum=20: expected 10 or 100"):
        CifarBase("test", cifar_classnum=20)


def test_other_part_and_missing_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="Cifar10 got train_or_test='val'"):
        Cifar10("val", dir=tmp_path)
    with pytest.raises(InputError, match=f"{tmp_path} has no cifar-100-binary/train.bin"):
        Cifar100("train", dir=tmp_path)
