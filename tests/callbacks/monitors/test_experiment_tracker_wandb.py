"""What does not need the client; `tests.trials.trackers` trains with it."""

from types import SimpleNamespace

import numpy as np

from tpack.callbacks.monitors.experiment_tracker import Histogram, WandbMonitor


def test_histograms_have_no_more_bins_than_the_client_takes():
    monitor = WandbMonitor.__new__(WandbMonitor)
    monitor._client = SimpleNamespace(Histogram=SimpleNamespace(MAX_LENGTH=3))
    counts, edges = monitor._with_fewer_bins(Histogram(np.arange(1.0, 8.0), np.arange(8.0)))
    assert counts.tolist() == [10.0, 18.0]
    assert edges.tolist() == [0.0, 4.0, 7.0]
