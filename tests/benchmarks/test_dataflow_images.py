"""The loop by hand of the benchmark of images does what the augmentors do."""

import importlib

import numpy as np

from tests.helpers.images import picture
from tests.helpers.source import ROOT
from tpack.dataflow import imgaug


def test_loop_by_hand_does_what_the_augmentors_do(monkeypatch, rng):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = importlib.import_module("dataflow_images")
    augmentors = imgaug.AugmentorList(benchmark.make_augmentors())
    shared = np.random.RandomState(5)
    for augmentor in augmentors.augmentors:
        augmentor.rng = shared
    by_hand = np.random.RandomState(5)
    for _ in range(20):
        image = picture(rng, (50, 60, 3))
        np.testing.assert_array_equal(augmentors.augment(image), benchmark.augment_by_hand(image, by_hand))
