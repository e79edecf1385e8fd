from types import SimpleNamespace

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks import memory
from tpack.callbacks.memory import HostMemoryTracker


def test_free_memory_is_reported(graph, monkeypatch):
    free = [3e9, 2.5e9]
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=free.pop(0)))
    trainer = FakeTrainer().train([HostMemoryTracker()])
    assert trainer.recorder.values("HostFreeMemory (GB)") == [3.0, 2.5]
