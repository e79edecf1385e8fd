from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.progress import ProgressBar
from tpack.callbacks.run_op import RunUpdateOps
from tpack.callbacks.summary import MergeAllSummaries, MovingAverageSummary
from tpack.train.config import DEFAULT_CALLBACKS, DEFAULT_MONITORS


def test_default_callbacks_are_new_objects_at_each_call():
    kinds = [MovingAverageSummary, ProgressBar, type(MergeAllSummaries()), RunUpdateOps]
    assert [type(callback) for callback in DEFAULT_CALLBACKS()] == kinds
    first, second = DEFAULT_CALLBACKS(), DEFAULT_CALLBACKS()
    assert all(a is not b for a, b in zip(first, second, strict=True))


def test_default_monitors_are_monitors():
    names = [type(monitor).__name__ for monitor in DEFAULT_MONITORS()]
    assert names == ["TFEventWriter", "JSONWriter", "ScalarPrinter"]
    assert all(isinstance(monitor, MonitorBase) for monitor in DEFAULT_MONITORS())
