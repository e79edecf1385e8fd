import sys
import threading

import pytest

from tests.helpers.fake_nvml import two_gpus
from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks import resource_trackers
from tpack.callbacks.base import Callback
from tpack.callbacks.resource_trackers import GPUUtilizationTracker
from tpack.errors import StopTraining


@pytest.fixture
def nvml(monkeypatch):
    library = two_gpus()
    library.gpus[1]["utilization"] = (10, 1)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return library


def test_an_epoch_shorter_than_the_interval_is_looked_at_once(graph, nvml):
    trainer = FakeTrainer().train([GPUUtilizationTracker()])
    assert trainer.recorder.values("GPUUtil/0") == [70.0, 70.0]
    assert trainer.recorder.values("GPUUtil/1") == [10.0, 10.0]


def test_the_mean_of_what_was_seen_in_the_epoch_is_reported(graph, nvml, monkeypatch):
    monkeypatch.setattr(resource_trackers, "INTERVAL_SECS", 0.0)
    rising, seen, enough = iter(range(10**9)), [], threading.Event()
    real = nvml.nvmlDeviceGetUtilizationRates

    def measure(handle):
        nvml.gpus[handle]["utilization"] = (next(rising), 0)
        rates = real(handle)
        seen.append(rates.gpu)
        if len(seen) > 5:
            enough.set()
        return rates

    class Wait(Callback):
        def _trigger_step(self):
            assert enough.wait(30)

    monkeypatch.setattr(nvml, "nvmlDeviceGetUtilizationRates", measure)
    trainer = FakeTrainer().train([Wait(), GPUUtilizationTracker((0,))], epochs=(1, 1), steps_per_epoch=1)
    # The first look is the one before training.
    assert trainer.recorder.values("GPUUtil/0") == [pytest.approx(sum(seen[1:]) / len(seen[1:]))]


def test_a_gpu_that_falls_silent_is_told_once(graph, nvml):
    class Lose(Callback):
        def _after_epoch(self):
            nvml.gpus[0]["utilization"] = None

    with captured_log() as lines:
        trainer = FakeTrainer().train([Lose(), GPUUtilizationTracker((0,))], epochs=(1, 3))
    assert trainer.recorder.scalars == []
    assert lines == ["GPUUtilizationTracker reports nothing: the GPU does not tell its utilization: Not Supported"]


def test_no_thread_is_left_when_training_ends_with_an_error(graph, nvml):
    class Stop(Callback):
        def _trigger_step(self):
            raise StopTraining("in the middle of an epoch")

    with pytest.raises(StopTraining):
        FakeTrainer().train([GPUUtilizationTracker(), Stop()])
    assert "GPUUtilizationTracker" not in [thread.name for thread in threading.enumerate()]
