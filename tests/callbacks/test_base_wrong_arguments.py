"""A wrong argument of a callback is an error that names it, raised before there is a callback."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tpack.callbacks as cb
from tests.helpers.flows import Counting
from tpack.callbacks.base import Callback
from tpack.errors import ConfigError, WrongTypeError


class Triggered(Callback):
    def _trigger(self) -> None:
        pass


class Secret(list):  # type: ignore[type-arg]
    """Data that no message may print."""

    def __repr__(self) -> str:
        return "SECRET"


SECRET = Secret([np.zeros(3)])
PARAM = cb.ObjAttrParam(SimpleNamespace(rate=1.0), "rate")
DATA = Counting(3)


def inferencer() -> Any:
    return cb.ScalarStats("cost")


CASES: list[tuple[Any, dict[str, Any], str, list[Any]]] = [
    (cb.BinaryClassificationStats, {"pred_tensor_name": "p", "label_tensor_name": "l"}, "prefix", [None, 5]),
    (cb.CallbackFactory, {}, "trigger", [5, "x"]),
    (cb.Callbacks, {}, "cbs", [None, 5, "x", [5]]),
    (cb.CallbackToHook, {}, "cb", [None, 5]),
    (cb.CheckNumerics, {}, "run_step", [None, 1, "no"]),
    (cb.ClassificationError, {}, "wrong_tensor_name", [None, 5]),
    (cb.DataParallelInferenceRunner, {"input": DATA, "infs": inferencer()}, "gpus", [None, "x", 1.5]),
    (cb.DumpTensorAsImage, {}, "tensor_name", [None, 5, ""]),
    (cb.DumpTensorAsImage, {"tensor_name": "x"}, "scale", [None, "x", math.nan]),
    (cb.DumpTensors, {}, "names", [None, 5, "x", [5]]),
    (cb.EMA, {}, "decay", [None, "x", math.nan, 1.0, -0.1]),
    (cb.EMA, {}, "name", [None, 5, ""]),
    (cb.EMA, {"batch_norm_data": DATA}, "batch_norm_steps", [0, -1, 2.5, "3", True]),
    (cb.EarlyStopping, {"mode": "min"}, "monitor", [None, 5, ""]),
    (cb.EarlyStopping, {"monitor": "error"}, "min_delta", [None, "x", math.nan, -1]),
    (cb.EnableCallbackIf, {"callback": Triggered()}, "pred", [None, 5]),
    (cb.EnableCallbackIf, {"pred": bool}, "callback", [None, 5, "x"]),
    (cb.EstimatedTimeLeft, {}, "last_k_epochs", [None, 0, -1, 2.5, "3", True]),
    (cb.EstimatedTimeLeft, {}, "median", [None, 1]),
    (cb.GPUMemoryTracker, {}, "devices", [5, "0", [-1], [True]]),
    (cb.GPUUtilizationTracker, {}, "devices", [5, "0", [-1]]),
    (cb.GraphProfiler, {}, "dump_event", [None, 1]),
    (cb.GradientNoiseScale, {}, "batch_size", [None, 0, -1, 1.5, "3", True]),
    (cb.GradientNoiseScale, {"batch_size": 8}, "every_steps", [None, 0, -1, 1.5, "3", True]),
    (cb.GradientNoiseScale, {"batch_size": 8}, "smoothing", [None, 1, -0.5, 1.5, "x", math.nan]),
    (cb.GraphProfiler, {}, "num_steps", [0, -1, 1.5, "3", True]),
    (cb.Profile, {}, "steps", [None, 5, "x", (1,), (0, 2), (3, 2), (1, 2.5)]),
    (cb.Profile, {}, "directory", [5]),
    (cb.GraphVarParam, {}, "name", [None, 5]),
    (cb.HookToCallback, {}, "hook", [None, 5]),
    (cb.HumanHyperParamSetter, {"param": PARAM}, "file_name", [None, 5, ""]),
    (cb.HyperParamSetterWithFunc, {"param": PARAM}, "func", [None, 5]),
    (cb.HyperParamSetterWithFunc, {"func": max}, "param", [None, 5]),
    (cb.InferenceRunner, {"infs": inferencer()}, "input", [None, 5, "x"]),
    (cb.InferenceRunner, {"input": DATA, "infs": inferencer()}, "batch_size", [0, -1, 2.5, "3", True]),
    (cb.InferenceRunner, {"input": DATA}, "infs", [None, 5, [], [5], SECRET]),
    (cb.InferenceRunner, {"input": DATA, "infs": inferencer()}, "tower_name", [5]),
    (cb.MaxSaver, {}, "monitor_stat", [None, 5, ""]),
    (cb.MaxTime, {}, "limit", [None, "x", -1, math.nan, True]),
    (cb.MergeAllSummaries, {}, "period", [None, -1, 1.5, "3", True]),
    (cb.MergeAllSummaries, {}, "run_alone", [None, 1]),
    (cb.MergeScalars, {}, "how", [None, 5, {"cost": "sums"}, {}]),
    (cb.MinSaver, {"monitor_stat": "error"}, "reverse", [None, 1, "no"]),
    (cb.MinSaver, {"monitor_stat": "error"}, "max_to_keep", [None, 0, -1, 1.5, "3", True]),
    (cb.ModelSaver, {}, "asynchronous", [None, 1, "no"]),
    (cb.ModelSaver, {}, "max_to_keep", [None, "3", -1, 2.5, True]),
    (cb.ModelSaver, {}, "keep_checkpoint_every_n_hours", [None, "3", -1, math.nan, math.inf]),
    (cb.ModelSaver, {}, "checkpoint_dir", [5]),
    (cb.ModelSaver, {}, "var_collections", [5]),
    (cb.ScaleWithWorkers, {"param": PARAM}, "rule", [None, 5, "cubic"]),
    (cb.ScaleWithWorkers, {"param": PARAM, "rule": "linear"}, "base_workers", [None, 0, 1.5]),
    (cb.SlowestWorker, {}, "log_from", [None, "x", 0.5, math.nan]),
    (cb.Monitors, {}, "monitors", [None, 5, [Triggered()]]),
    (cb.MovingAverageSummary, {}, "collection", [None, 5]),
    (cb.ObjAttrParam, {"obj": PARAM}, "attrname", [None, 5]),
    (cb.PeakMemoryTracker, {}, "devices", [None, 5, [-1]]),
    (cb.PeriodicCallback, {"callback": Triggered()}, "every_k_steps", [0, -1, "3", 1.5]),
    (cb.PeriodicTrigger, {"triggerable": Triggered()}, "every_k_epochs", [0, -1, "3", 1.5]),
    (cb.PeriodicTrigger, {"every_k_steps": 1}, "triggerable", [None, 5]),
    (cb.ProcessTensors, {"fn": print}, "names", [None, 5, "x"]),
    (cb.ProgressBar, {}, "names", [5, "cost", [5]]),
    (cb.ProxyCallback, {}, "cb", [None, 5]),
    (cb.ScalarPrinter, {}, "enable_step", [None, 1]),
    (cb.ScalarPrinter, {}, "whitelist", [5, "cost", [5], ["("]]),
    (cb.ScalarStats, {}, "names", [None, 5, [5]]),
    (cb.ScalarStats, {"names": "x"}, "prefix", [None, 5]),
    (cb.ScheduledHyperParamSetter, {"param": PARAM, "schedule": [(1, 2)]}, "step_based", [None, 1]),
    (cb.SendMonitorData, {"command": "true", "names": "x"}, "timeout_secs", [None, 0, "3", math.nan]),
    (cb.SWA, {}, "start_epoch", [None, 0, -1, 2.5, "3", True]),
    (cb.SWA, {}, "every_steps", [0, -1, 2.5, "3", True]),
    (cb.SWA, {}, "name", [None, 5, ""]),
    (cb.SWA, {}, "batch_norm_data", [5, "x"]),
    (cb.SWA, {"batch_norm_data": DATA}, "batch_size", [0, -1, 2.5, "3", True]),
    (cb.SendStat, {"command": "true", "names": "x"}, "timeout_secs", [None, 0, "3", math.nan]),
    (cb.SendStat, {"names": "x"}, "command", [None, 5]),
    (cb.SimpleMovingAverage, {"tensors": "x"}, "window_size", [None, 0, 1.5, "3"]),
    (cb.SimpleMovingAverage, {"window_size": 3}, "tensors", [None, 5, [5]]),
    (cb.StatMonitorParamSetter, {"param": PARAM, "stat_name": "error", "threshold": 0, "last_k": 1}, "value_func", [5]),
    (cb.TFEventWriter, {}, "max_queue", [None, 0, "3"]),
    (cb.TFEventWriter, {}, "logdir", [5]),
    (cb.TensorBoardHParams, {}, "hparams", [None, 5, "x"]),
    (cb.CometMonitor, {}, "tags", [5]),
    (cb.MLflowMonitor, {}, "tracking_uri", [5]),
    (cb.WandbMonitor, {}, "hparams", [5, "x"]),
    (cb.ThroughputTracker, {}, "samples_per_step", ["x", 0, -1, math.nan, math.inf, True]),
]


@pytest.mark.parametrize(
    ("make", "right", "name", "value"),
    [(make, right, name, value) for make, right, name, values in CASES for value in values],
    ids=[
        f"{make.__name__}-{name}-{type(value).__name__}{i}" for make, _, name, vs in CASES for i, value in enumerate(vs)
    ],
)
def test_a_wrong_argument_is_named(make: Any, right: dict[str, Any], name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        make(**right, **{name: value})
    message = str(caught.value)
    assert make.__name__ in message
    assert name in message
    assert "SECRET" not in message


def test_every_callback_is_in_the_table() -> None:
    others = {
        "Callback Inferencer MonitorBase HyperParam HyperParamSetter InferenceRunnerBase": "for subclasses",
        "CSVWriter HostMemoryTracker JSONWriter": "take no argument",
        "RunOp RunUpdateOps SessionRunTimeout StartProcOrThread Watchdog": "have tests of their own",
        "DumpParamAsImage DumpTensor TensorPrinter": "are DumpTensorAsImage, DumpTensors and ProcessTensors",
    }
    assert {make.__name__ for make, *_ in CASES} | set(" ".join(others).split()) == set(cb.__all__)


def test_wrong_types_are_type_errors() -> None:
    with pytest.raises(WrongTypeError, match="ModelSaver got max_to_keep='3': expected an integer"):
        cb.ModelSaver(max_to_keep="3")  # type: ignore[arg-type]
    with pytest.raises(
        WrongTypeError, match="InferenceRunner cannot take its input: the data are None: expected a DataFlow"
    ):
        cb.InferenceRunner(None, inferencer())
