from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.resource_trackers import GPUMemoryTracker


def test_used_memory_is_reported(graph, nvml):
    def use(callback):
        nvml.gpus[0]["memory"] = (10e9, callback.epoch_num * 1e9)

    trainer = FakeTrainer().train([CallbackFactory(trigger=use), GPUMemoryTracker((0, 1))])
    assert trainer.recorder.values("GPUMemory(MB)/gpu:0") == [1000.0, 2000.0]
    assert trainer.recorder.values("GPUMemory(MB)/gpu:1") == [50e-6] * 2


def test_a_gpu_that_falls_silent_is_told_once(graph, nvml, monkeypatch):
    def fail(handle):
        raise nvml.NVMLError("GPU is lost")

    lose = CallbackFactory(trigger=lambda _: monkeypatch.setattr(nvml, "nvmlDeviceGetMemoryInfo", fail))
    with captured_log() as lines:
        trainer = FakeTrainer().train([GPUMemoryTracker(), lose], epochs=(1, 4))
    assert trainer.recorder.values("GPUMemory(MB)/gpu:0") == [30e-6]
    assert lines == ["GPUMemoryTracker reports nothing: the GPU does not tell its memory: GPU is lost"]
