from types import SimpleNamespace

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks import host_memory
from tpack.callbacks.host_memory import HostMemoryTracker


def test_free_memory_is_reported(graph, monkeypatch):
    free = [3e9, 2.5e9]
    monkeypatch.setattr(host_memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=free.pop(0)))
    trainer = FakeTrainer().train([HostMemoryTracker()])
    assert trainer.recorder.values("HostFreeMemory (GB)") == [3.0, 2.5]
