"""CIFAR in its published files: augmented in a process, learned, and the same in another run of one seed."""

import numpy as np

from tests.helpers.dataset_trees import write_cifar
from tests.helpers.run_script import run_script
from tests.integration.scripts import cifar_augmented


def test_cifar10_is_learned_from_augmented_images(tmp_path, monkeypatch, rng):
    write_cifar(tmp_path / "data", monkeypatch, rng)

    run = run_script(cifar_augmented.main, tmp_path / "train", "--data", tmp_path / "data")

    # Nine of ten are wrong by chance.
    assert run.last["validation_error"] < 0.1
    assert run.last["train_error"] < 0.3
    assert run.last["HostFreeMemory (GB)"] > 0
    assert "Data point 0 of cifar-train" in run.log
    assert "(50, 30, 30, 3)" in run.log


def test_cifar100_is_validated_in_its_order_without_random_changes(tmp_path, monkeypatch, rng):
    write_cifar(tmp_path, monkeypatch, rng, num_classes=100, per_file=100)

    first, second = (list(ready(cifar_augmented.get_data("test", 100, tmp_path))) for _ in range(2))
    for (images, labels), (again, _), start in zip(first, second, (0, 50), strict=True):
        np.testing.assert_array_equal(images, again)
        np.testing.assert_array_equal(labels, np.arange(start, start + 50))
        np.testing.assert_allclose(images.mean(axis=(1, 2, 3)), 0, atol=1e-4)
        np.testing.assert_allclose(images.std(axis=(1, 2, 3)), 1, rtol=1e-3)


def ready(ds):
    ds.reset_state()
    return ds
