import json

import numpy as np
import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.stopping import EarlyStopping
from tpack.errors import ConfigError, StopTraining


def train(stats, first_epoch=1, callbacks=(), **options):
    """Report one statistic in each epoch (None for none); return the epoch that was the last, and the reason."""
    pending = list(stats)

    def report(callback):
        value = pending.pop(0)
        if value is not None:
            callback.trainer.monitors.put_scalar("error", value)

    trainer = FakeTrainer()
    stopping = [EarlyStopping("error", **options), CallbackFactory(trigger=report), *callbacks]
    try:
        trainer.train(stopping, epochs=(first_epoch, first_epoch + len(stats) - 1), steps_per_epoch=1)
    except StopTraining as stop:
        return trainer.epoch_num, str(stop)
    return trainer.epoch_num, None


def keras_epoch(stats, patience, min_delta):
    """Return the epoch in which Keras' rule stops, written out."""
    best, wait = np.inf, 0
    for epoch, value in enumerate(stats, 1):
        wait += 1
        if value < best - min_delta:
            best, wait = value, 0
        elif wait >= max(patience, 1):
            return epoch
    return len(stats)


def test_training_ends_where_the_written_out_rule_ends_it(graph, rng):
    for patience, min_delta in ((0, 0.0), (1, 0.0), (3, 0.0), (3, 0.2)):
        stats = (rng.uniform(size=30) + np.linspace(1, 0, 30)).round(3).tolist()
        with type(graph)().as_default():
            epoch, _ = train(stats, patience=patience, min_delta=min_delta)
        assert epoch == keras_epoch(stats, patience, min_delta)


def test_the_reason_names_the_statistic_and_its_best_value(graph):
    assert train([3, 2, 2.5, 2], patience=2) == (4, "error has not improved over its last 2 values, the best one was 2")


def test_a_statistic_may_be_better_when_it_is_larger(graph):
    assert train([1, 2, 3, 3.5, 3], mode="max", min_delta=0.6)[0] == 4


def test_nan_is_no_improvement_and_missing_values_do_not_count(graph):
    assert train([float("nan"), None, None, 1, None, float("nan"), 0.5, 0.6], patience=2)[0] == 8


def test_nothing_counts_before_the_first_epoch_that_does(graph):
    assert train([1, 2, 3, 4, 3, 3], start_from_epoch=4)[0] == 6


def test_values_must_be_better_than_the_baseline(graph):
    assert train([9, 8, 7, 6], patience=3, baseline=5)[0] == 3
    with type(graph)().as_default():
        assert train([9, 8, 4, 4, 4], patience=3, baseline=5)[1] is None


@pytest.mark.parametrize("first", [2, 3, 4, 5])
def test_a_resumed_run_stops_when_it_would_have_stopped(graph, log_dir, first):
    stats = [5.0, 4.0, 4.5, 4.5, 4.5, 4.5]
    entries = [{"epoch_num": k, "global_step": k, "error": value} for k, value in enumerate(stats[: first - 1], 1)]
    (log_dir / "stats.json").write_text(json.dumps(entries))
    assert train(stats[first - 1 :], first_epoch=first, patience=3)[0] == 5


def test_the_last_epoch_is_still_saved_and_reported(graph, log_dir):
    assert train([1, 2], callbacks=[ModelSaver()]) == (
        2,
        "error has not improved over its last 1 values, the best one was 1",
    )
    assert (log_dir / "model-2.index").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "auto"}, "EarlyStopping got mode='auto': expected one of 'min', 'max'"),
        ({"patience": -1}, "patience=-1: expected an integer of at least 0"),
        ({"patience": 1.5}, "patience=1.5: expected an integer"),
        ({"min_delta": -0.5}, "min_delta=-0.5: expected a number of at least 0"),
        ({"baseline": "x"}, "baseline='x': expected a number or None"),
        ({"start_from_epoch": -1}, "start_from_epoch=-1: expected"),
    ],
)
def test_what_makes_no_sense_is_an_error(options, message):
    with pytest.raises(ConfigError, match=message):
        EarlyStopping("error", **options)
