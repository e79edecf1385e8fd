"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.callbacks.monitors.base import MonitorBase as MonitorBase
from tpack.callbacks.monitors.experiment_tracker import CometMonitor as CometMonitor
from tpack.callbacks.monitors.experiment_tracker import MLflowMonitor as MLflowMonitor
from tpack.callbacks.monitors.experiment_tracker import WandbMonitor as WandbMonitor
from tpack.callbacks.monitors.group import Monitors as Monitors
from tpack.callbacks.monitors.hparams import TensorBoardHParams as TensorBoardHParams
from tpack.callbacks.monitors.table_writer import CSVWriter as CSVWriter
from tpack.callbacks.monitors.table_writer import JSONWriter as JSONWriter
from tpack.callbacks.monitors.writers import ScalarPrinter as ScalarPrinter
from tpack.callbacks.monitors.writers import TFEventWriter as TFEventWriter
from tpack.callbacks.send_stat import SendMonitorData as SendMonitorData
from tpack.multi_worker.cross_worker import MergeScalars as MergeScalars
from tpack.multi_worker.cross_worker import SlowestWorker as SlowestWorker
