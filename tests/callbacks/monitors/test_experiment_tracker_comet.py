"""What is asked of the client, by a stand-in; `tests.trials.trackers` trains with the real one."""

import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.monitors.experiment_tracker import CometMonitor, Histogram, Row
from tpack.errors import CallbackError


class Experiment:
    """Writes down what is called."""

    def __init__(self, calls, ended=False):
        self.calls, self.ended, self.alive = calls, ended, True

    def get_key(self):
        return "key"

    def __getattr__(self, name):
        return lambda *values, **more: self.calls.append((name, values, more))


class Client:
    """Stands in for the module of the client."""

    class Histogram:
        def add(self, values, counts):
            self.added = values.tolist(), counts.tolist()

    def __init__(self, running=None):
        self.calls, self.running, self.error = [], running, None
        self.data_structure = SimpleNamespace(Histogram=self.Histogram)
        kinds = ("InvalidAPIKey", "InvalidWorkspace", "AuthenticationError")
        self.exceptions = SimpleNamespace(**{name: type(name, (Exception,), {}) for name in kinds})

    def get_running_experiment(self):
        return self.running

    def ExperimentConfig(self, **options):  # noqa: N802 (the client's name)
        return options

    def start(self, **options):
        if self.error is not None:
            raise self.error
        self.calls.append(("start", (), options))
        return Experiment(self.calls)


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setitem(sys.modules, "comet_ml", Client())
    return sys.modules["comet_ml"]


def report(callback):
    callback.trainer.monitors.put_scalar("cost", callback.epoch_num / 2)


def train(monitor, epochs):
    FakeTrainer().train([CallbackFactory(trigger=report)], monitors=[monitor], epochs=epochs, global_step=epochs[0] - 1)


def test_an_experiment_is_begun_and_gone_on_with(graph, client, log_dir):
    train(CometMonitor("digits", "mine", hparams={"rate": 0.1}, online=False), (1, 1))
    start, parameters, metrics, other, end = client.calls
    assert (start[2]["project_name"], start[2]["mode"], start[2]["online"]) == ("digits", "create", False)
    assert start[2]["experiment_config"]["offline_directory"] == os.path.join(log_dir, "comet")
    assert not start[2]["experiment_config"]["auto_output_logging"]
    assert parameters[1] == ({"rate": 0.1},)
    assert metrics == ("log_metrics", ({"cost": 0.5},), {"step": 2, "epoch": 1})
    assert (other[1], end[0]) == (("training", "finished"), "end")
    client.calls.clear()
    client.running = Experiment([], ended=True)
    monitor = CometMonitor("digits", hparams={"rate": 0.1})
    monitor._setup_graph()
    assert monitor._begin("key") == "key"
    ((name, _, options),) = client.calls
    assert (name, options["experiment_key"], options["mode"]) == ("start", "key", "get_or_create")


def test_an_experiment_of_the_program_is_left_open(graph, client, log_dir):
    client.running = Experiment(client.calls)
    train(CometMonitor(), (1, 1))
    assert [name for name, *_ in client.calls] == ["log_parameters", "log_metrics", "log_other"]


def test_images_and_histograms_are_sent(client):
    monitor = CometMonitor()
    monitor._experiment = Experiment(client.calls)
    histogram = Histogram(np.array([3.0, 4.0]), np.array([0.0, 1.0, 3.0]))
    monitor._send(Row(7, 2, 0.0, {}, {"picture": b"png"}, {"weights": histogram}))
    _, image, weights = client.calls
    assert (image[0], image[1][0].read(), image[2]) == ("log_image", b"png", {"name": "picture", "step": 7})
    assert (weights[0], weights[1][0].added) == ("log_histogram_3d", ([0.5, 2.0], [3.0, 4.0]))


def test_a_key_that_is_missing_ends_the_program(graph, client, log_dir):
    client.error = ValueError("there is no key")
    with pytest.raises(CallbackError, match="cannot begin a run: there is no key"):
        train(CometMonitor(), (1, 1))


def test_an_experiment_that_nothing_is_kept_of_is_a_warning(graph, client, log_dir):
    client.running = Experiment(client.calls)
    client.running.alive = False
    with captured_log() as lines:
        train(CometMonitor(), (1, 1))
    assert [line for line in lines if "a run cannot be begun: ConnectionError: the client keeps nothing" in line]
    assert client.calls == []
