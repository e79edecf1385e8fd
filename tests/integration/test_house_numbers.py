"""House numbers and handwritten digits, mixed to train on and one after the other to test."""

import numpy as np
import pytest

from tests.helpers.dataset_trees import digits_of_size, write_mnist, write_svhn
from tests.helpers.run_script import run_script
from tests.integration.scripts import house_numbers

NUM_TEST = 100


def test_one_network_learns_both_kinds_of_digits(tmp_path, rng):
    data = tmp_path / "data"
    data.mkdir()
    for start, part in ((0, "train"), (500, "extra")):
        write_svhn(data / "svhn", part, start, start + 500, rng)
    write_mnist(data / "mnist", "train", 1000, 1500)
    write_svhn(data / "svhn", "test", 1500, 1500 + NUM_TEST, rng)
    write_mnist(data / "mnist", "test", 1600, 1600 + NUM_TEST)

    run = run_script(house_numbers.main, tmp_path / "train", "--data", data)
    # 1500 images in batches of 50.
    assert [entry["global_step"] for entry in run.stats] == [30, 60, 90, 120]
    assert run.last["validation_error"] < 0.15

    load = run.log_dir / "model-120"
    prob, labels = run_script(house_numbers.main, tmp_path / "test", "--data", data, "--load", load).result
    _, wanted = digits_of_size(8, 1500, 1500 + 2 * NUM_TEST)
    np.testing.assert_array_equal(labels, wanted)
    is_wrong = prob.argmax(axis=1) != labels
    assert is_wrong.mean() == pytest.approx(run.last["validation_error"], abs=1e-6)
    # Neither kind was learned alone.
    assert is_wrong[:NUM_TEST].mean() < 0.2
    assert is_wrong[NUM_TEST:].mean() < 0.2
