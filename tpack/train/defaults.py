"""The callbacks and monitors that a run has unless it says otherwise."""

from tpack.callbacks.averages import MovingAverageSummary
from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.monitors.json_writer import JSONWriter
from tpack.callbacks.monitors.writers import ScalarPrinter, TFEventWriter
from tpack.callbacks.progress import ProgressBar
from tpack.callbacks.run_op import RunUpdateOps
from tpack.callbacks.summary import MergeAllSummaries


def DEFAULT_CALLBACKS() -> list[Callback]:
    """Return new default callbacks: moving averages, a progress bar, summaries each epoch, and update ops each step."""
    return [MovingAverageSummary(), ProgressBar(), MergeAllSummaries(), RunUpdateOps()]


def DEFAULT_MONITORS() -> list[MonitorBase]:
    """Return new default monitors: TensorBoard events, ``stat.json``, and the scalars of each epoch in the log."""
    return [TFEventWriter(), JSONWriter(), ScalarPrinter()]
