import sys

import pytest

from tests.helpers.fake_nvml import FakeNVML
from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.resource_trackers import _GPUWatch


class Watch(_GPUWatch):
    """Notes the identifiers of its GPUs."""

    def _measure(self):
        return {index: gpu.uuid() for index, gpu in self._gpus.items()}

    def _trigger(self):
        self.found = self._measure()


@pytest.mark.parametrize(
    ("devices", "found"), [(None, {0: "GPU-aaaa-1", 1: "GPU-abbb-2"}), ((1,), {1: "GPU-abbb-2"}), ((), {})]
)
def test_gpus_are_those_that_are_wanted(graph, nvml, devices, found):
    watch = Watch(devices)
    FakeTrainer().train([watch])
    assert watch.found == found
    assert nvml.num_open == 0


def test_numbers_count_what_the_environment_leaves(graph, nvml, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    watch = Watch((0,))
    FakeTrainer().train([watch])
    assert watch.found == {0: "GPU-abbb-2"}


@pytest.mark.parametrize(
    ("library", "message"),
    [
        (None, "this needs the package 'pynvml'"),
        (FakeNVML([], driver=False), "cannot be used on this machine: Driver Not Loaded"),
        (FakeNVML([]), r"got devices=[0]: expected numbers below 0, of GPUs"),
    ],
)
def test_without_gpus_there_is_one_warning(graph, monkeypatch, library, message):
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    watch = Watch((0,))
    with captured_log() as lines:
        FakeTrainer().train([watch])
    assert watch.found == {}
    assert len(lines) == 1
    assert lines[0].startswith("Watch reports nothing: ")
    assert message in lines[0]
    assert library is None or library.num_open == 0


def test_a_library_that_cannot_be_closed_disturbs_nothing(graph, nvml, monkeypatch):
    def fail():
        raise nvml.NVMLError("gone")

    monkeypatch.setattr(nvml, "nvmlShutdown", fail)
    with captured_log() as lines:
        FakeTrainer().train([Watch((0,))])
    assert lines == ["Watch: NVIDIA's management library cannot be closed: gone"]


def test_what_is_measured_is_for_a_subclass_to_say():
    with pytest.raises(NotImplementedError, match="must override _measure"):
        _GPUWatch(None)._measure()
