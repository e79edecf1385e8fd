"""Q-learning from a replay memory that fills while it trains: the values are those of the corridor's best policy."""

import numpy as np
import pytest

from tests.helpers.examples import load_example
from tests.helpers.run_script import run_script

dqn = load_example("dqn")


def test_dqn_finds_the_values_of_the_corridor(tmp_path):
    run = run_script(dqn.main, tmp_path / "train")

    assert [entry["exploration"] for entry in run.stats] == pytest.approx([1, 5 / 6, 4 / 6, 0.5])
    assert all(entry["expreplay/games"] > 0 for entry in run.stats)
    # Before training, and then every 40 steps of four epochs of 250.
    assert run.log.count("update_target_network") == 1 + 25

    values = run_script(dqn.main, tmp_path / "eval", "--load", run.log_dir / "model-1000").result
    np.testing.assert_array_equal(values, run.result)
    best = dqn.GAMMA ** np.arange(dqn.LENGTH - 2, -1, -1)
    np.testing.assert_allclose(values[:, 1], best, atol=0.05)
    # A step to the left costs that step and the one back; at the wall only the one that led nowhere.
    np.testing.assert_allclose(values[:, 0], dqn.GAMMA * np.concatenate([best[:1], best[:-1]]), atol=0.05)
