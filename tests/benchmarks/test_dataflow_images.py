"""The benchmark of images runs, its figures are complete, and its loop by hand does what the augmentors do."""

import importlib
import json
import os
import subprocess
import sys

import numpy as np

from tests.helpers.images import picture
from tests.helpers.source import ROOT
from tpack.dataflow import imgaug


def test_tiny_run_measures_every_way(tmp_path):
    command = [sys.executable, ROOT / "benchmarks" / "dataflow.py", "--out", tmp_path / "out.json"]
    command += ["--part", "images", "--images", "128", "--rounds", "1", "--workers", "1"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["images"]
    assert len(figures["images_per_sec"]) >= 4
    assert all(rate > 0 for rate in figures["images_per_sec"].values())
    assert len(figures["ratios"]) >= 2
    assert all(name in done.stdout for name in figures["ratios"])


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
