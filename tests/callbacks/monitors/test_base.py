import numpy as np

from tpack.callbacks.monitors.base import MonitorBase


class Taker(MonitorBase):
    def __init__(self):
        self.taken = []

    def process(self, name, val):
        self.taken.append((name, np.asarray(val).shape))


def test_process_takes_scalars_and_images():
    monitor = Taker()
    monitor.process_scalar("cost", 1.0)
    monitor.process_image("picture", np.zeros([1, 2, 2, 3]))
    assert monitor.taken == [("cost", ()), ("picture", (1, 2, 2, 3))]


def test_base_ignores_everything():
    monitor = MonitorBase()
    for method in (monitor.process_summary, monitor.process_event):
        assert method(object()) is None
    assert monitor.process("cost", 1.0) is None
    assert monitor.reads_statistics
