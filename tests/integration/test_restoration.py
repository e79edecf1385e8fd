"""A pattern is removed from photographs, learned from pairs that a thread put into a queue."""

import cv2
import numpy as np

from tests.helpers.run_script import run_script
from tests.integration.scripts import restoration


def write_images(directory, rng):
    """Write smooth photographs and patterns of thin stripes; return a photograph of neither and it with a pattern."""
    for kind in ("photographs", "patterns"):
        (directory / kind).mkdir(parents=True)
    photographs = [cv2.resize(rng.integers(60, 190, (3, 3, 3)).astype("uint8"), (80, 64)) for _ in range(6)]
    stripes = [(128 + 50 * np.sign(np.sin(np.arange(80) * k + 0.1))).astype("uint8") for k in (1.5, 2.0, 2.5)]
    patterns = [np.broadcast_to(stripe[:, np.newaxis], (64, 80, 3)).copy() for stripe in stripes]
    for kind, images in (("photographs", photographs[1:]), ("patterns", patterns)):
        for number, image in enumerate(images):
            cv2.imwrite(str(directory / kind / f"{number}.png"), image)
    dirty, _ = restoration.pattern_over([photographs[0], patterns[1]])
    cv2.imwrite(str(directory / "dirty.png"), dirty.astype("uint8"))
    return photographs[0], dirty


def decibels(image, wanted):
    return 20 * np.log10(255 / np.sqrt(np.mean((image.astype(float) - wanted) ** 2)))


def test_network_restores_a_photograph_that_it_never_saw(tmp_path, rng):
    data = tmp_path / "data"
    clean, dirty = write_images(data, rng)

    run = run_script(restoration.main, tmp_path / "train", "--data", data)
    assert run.last["psnr"] > run.stats[0]["psnr"]

    picture = tmp_path / "picture.png"
    options = ["--load", run.log_dir / "model-120", "--run", data / "dirty.png", picture]
    restored = run_script(restoration.main, tmp_path / "run", *options).result
    assert decibels(restored, clean) > decibels(dirty, clean) + 6
    assert cv2.imread(str(picture)).shape[1] >= 2 * 80
