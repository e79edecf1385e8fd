"""Whatever changes a training while it runs did so when it should, and left what it should."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_script import run_script
from tests.integration.scripts import steering
from tpack.utils import argtools


def test_steering_changes_a_training_while_it_runs(tmp_path, monkeypatch):
    # Other tests build the model, too.
    monkeypatch.setattr(argtools, "_executed", set())
    run = run_script(steering.main, tmp_path)

    # StopTraining ends it in the sixth of forty epochs, before the monitors close that epoch's entry or after.
    assert "Training was stopped in epoch 6: validation is above 0.85" in run.log
    stats = [entry for entry in run.stats if entry["epoch_num"] <= 5]
    assert len(stats) == 5
    # What a person wrote after the second epoch, what a function said for it, and what a statistic did later.
    assert [entry["noise"] for entry in stats] == pytest.approx([0.5, 0.5, 0.05, 0.05, 0.05])
    assert [entry["learning_rate"] for entry in stats] == pytest.approx([1, 1, 0.5, 0.5, 0.05])
    assert [entry.get("late") for entry in stats] == [None] * 4 + [5]
    assert all(entry["cost/SMA"] > 0 for entry in stats)
    assert stats[-1]["validation_accuracy"] > 0.85

    assert "the first tower is '', training: True" in run.log
    assert len((tmp_path / "printed").read_text().splitlines()) == 6
    sent = [float(line) for line in (tmp_path / "sent").read_text().split()]
    assert sent[:5] == pytest.approx([entry["validation_accuracy"] for entry in stats], abs=6e-4)
    # Every fifth step of 66; how many costs were small depends on when the noise went down.
    assert run.result.small.total == run.result.costs.count == 66 // 5
    assert 0 <= run.result.small.count <= run.result.small.total
    assert 0 < run.result.costs.average < 3
    # The steps of every second epoch.
    assert run.log.count("@tensors.py") == 3 * 11

    files = {path.name for path in run.log_dir.iterdir()}
    assert {"model-40.index", "model-60.index"} <= files
    assert "model-20.index" not in files
    weights = tf.train.load_checkpoint(str(run.log_dir / "model-60"))
    assert np.abs(weights.get_tensor("fc/W")).max() == 0.5
    # Its averages were not updated, since the update operations were taken back; neither is there a summary.
    assert not weights.get_tensor("still/mean/EMA").any()
    assert "thrown_away" not in run.last
