import keras
import numpy as np
import pytest

from tpack.compat.runtime import eager_mode
from tpack.keras.losses_metrics import KerasMetric
from tpack.keras.metric_states import OutputState, StateStats, WeightedStats


def test_a_smaller_batch_weighs_less_also_over_several_workers():
    whole, one, other = (WeightedStats(["loss", "error"], "shape", "validation") for _ in range(3))
    batches = [[np.float32(1), np.float32(0.5), np.array([10, 4])], [np.float32(4), np.float32(0), np.array([5, 4])]]
    for stats, results in [(whole, batches[0]), (whole, batches[1]), (one, batches[0]), (other, batches[1])]:
        stats._on_fetches(results)
    assert whole._get_fetches() == ["loss", "error", "shape"]
    wanted = {"validation_loss": pytest.approx(2), "validation_error": pytest.approx(1 / 3)}
    assert whole._after_inference() == wanted
    one._merge([one._state(), other._state()])
    assert one._after_inference() == wanted
    one._before_inference()
    assert one._after_inference() == {"validation_loss": 0, "validation_error": 0}


def test_a_metric_that_keeps_what_it_has_seen_begins_anew():
    with eager_mode():
        metric = KerasMetric(keras.metrics.AUC(num_thresholds=11, name="auc"))
    stats = StateStats(OutputState(metric, "auc", ("targets", "outputs")), "validation")
    for outputs, wanted in [([0.9, 0.1], 1.0), ([0.1, 0.9], 0.0)]:
        stats._before_inference()
        stats._on_fetches([np.array([1, 0]), np.array(outputs)])
        assert stats._after_inference() == {"validation_auc": pytest.approx(wanted, abs=1e-6)}
