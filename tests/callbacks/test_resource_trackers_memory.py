from types import SimpleNamespace

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks import resource_trackers
from tpack.callbacks.resource_trackers import HostMemoryTracker, PeakMemoryTracker


def test_free_memory_is_reported(graph, monkeypatch):
    free = [3e9, 2.5e9]
    monkeypatch.setattr(resource_trackers.psutil, "virtual_memory", lambda: SimpleNamespace(available=free.pop(0)))
    trainer = FakeTrainer().train([HostMemoryTracker()])
    assert trainer.recorder.values("HostFreeMemory (GB)") == [3.0, 2.5]


def test_without_a_gpu_there_is_one_warning_and_no_number(graph):
    with captured_log() as lines:
        trainer = FakeTrainer().train([PeakMemoryTracker((0, 3))])
    assert trainer.recorder.scalars == []
    assert lines == ["PeakMemoryTracker reports nothing of GPU 0, 3: the session has none."]


def test_the_peak_of_each_epoch_is_reported(graph, monkeypatch):
    """The names of devices and the calls are those of TensorFlow; no GPU is needed to check the arithmetic."""
    resets, peaks = [], {"GPU:1": 3e6}
    memory = SimpleNamespace(
        reset_memory_stats=resets.append, get_memory_info=lambda device: {"current": 0, "peak": peaks[device]}
    )
    monkeypatch.setattr(tf.config, "experimental", memory)
    callback, trainer = PeakMemoryTracker((1,)), FakeTrainer()
    trainer.setup([callback])
    device = SimpleNamespace(name="/job:localhost/replica:0/task:0/device:GPU:1")
    trainer.sess = SimpleNamespace(list_devices=lambda: [device])
    callback.before_train()
    callback.before_epoch()
    callback.trigger_epoch()
    assert resets == ["GPU:1"]
    assert trainer.recorder.values("PeakMemory(MB)/gpu:1") == [3.0]


@pytest.mark.gpu
def test_a_real_gpu_tells_its_peak(graph):
    if not any(device.device_type == "GPU" for device in tf.Session().list_devices()):
        pytest.skip("no GPU")
    with tf.device("/gpu:0"):
        big = tf.reduce_sum(tf.random.uniform([1024, 1024]))
    trainer = FakeTrainer(big.op).train([PeakMemoryTracker()])
    assert min(trainer.recorder.values("PeakMemory(MB)/gpu:0")) > 4
