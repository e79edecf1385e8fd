"""ImageNet read in four ways, which give the same images where nothing is random."""

import re

import numpy as np
import pytest

from tests.helpers.dataset_trees import write_ilsvrc
from tests.helpers.run_script import run_script
from tests.integration.scripts import ilsvrc_readers

CLASSES, PER_CLASS, SIZE = 4, 4, 32
OPTIONS = ["--size", SIZE, "--batch", 6]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The options that say where the tree is, and the LMDB files made of it."""
    root = tmp_path_factory.mktemp("ilsvrc")
    write_ilsvrc(root / "tree", np.random.default_rng(4), num_classes=CLASSES, per_class=PER_CLASS)
    places = ["--data", root / "tree", "--meta", root / "tree" / "meta", "--lmdb", root / "packed"]
    for part in ("train", "val"):
        run_script(ilsvrc_readers.main, root / "convert", "convert", "--part", part, *places)
    return places


@pytest.fixture
def run(places, tmp_path):
    """A function that runs the script there."""

    def run(*arguments, seed=1):
        return run_script(ilsvrc_readers.main, tmp_path, *arguments, *places, *OPTIONS, seed=seed)

    return run


def test_validation_is_the_same_in_every_way(run):
    wanted = run("read", "--part", "val", "--subtract-mean").result
    assert [len(images) for images, _ in wanted] == [6, 6, 4]
    for (images, words), start in zip(wanted, (0, 6, 12), strict=True):
        shades = (np.arange(16) // PER_CLASS)[start : start + 6]
        assert words == [f"n{k:08} shade {k}" for k in shades]
        # An image's values are about 50 more than 50 for each shade, and the mean of all is 100.
        np.testing.assert_allclose(images.mean(axis=(1, 2, 3)), 50 * shades - 50, atol=2)
    for way in ilsvrc_readers.WAYS[1:]:
        found = run("read", "--part", "val", "--way", way, "--subtract-mean").result
        for (images, words), (others, other_words) in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(others, images)
            assert other_words == words


@pytest.mark.parametrize("way", ilsvrc_readers.WAYS)
def test_training_changes_images_at_random(run, way):
    runs = [run("read", "--way", way, seed=seed).result for seed in (1, 2)]
    first, second = (np.concatenate([images for images, _ in result]) for result in runs)

    assert first.shape == second.shape == (12, SIZE, SIZE, 3)
    assert len({image.tobytes() for image in (*first, *second)}) == 24


def test_speed_is_measured(run):
    speed = run("speed", "--way", "threads")

    assert re.search(r"RepeatedData: 20 data points, [\d.]+ a second", speed.log)
    assert speed.result > 0
