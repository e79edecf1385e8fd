"""What holds for every callback: it goes through a whole training, alone or wrapped, and does not disturb it."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import tpack.callbacks
from tests.helpers.toy_inference import flow, make_trainer
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.group import Callbacks, ProxyCallback
from tpack.callbacks.hooks import HookToCallback
from tpack.callbacks.hyper_param import ObjAttrParam, ScaleWithWorkers
from tpack.callbacks.inference.inferencers import BinaryClassificationStats, ClassificationError, ScalarStats
from tpack.callbacks.inference.runners import DataParallelInferenceRunner, InferenceRunner
from tpack.callbacks.min_max_saver import MaxSaver, MinSaver
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.monitors.group import Monitors
from tpack.callbacks.monitors.hparams import TensorBoardHParams
from tpack.callbacks.monitors.table_writer import CSVWriter, JSONWriter
from tpack.callbacks.monitors.writers import ScalarPrinter, TFEventWriter
from tpack.callbacks.nan_checks import CheckNumerics
from tpack.callbacks.param_setters import (
    HumanHyperParamSetter,
    HyperParamSetterWithFunc,
    ScheduledHyperParamSetter,
    StatMonitorParamSetter,
)
from tpack.callbacks.profiling.graph_profiler import GraphProfiler
from tpack.callbacks.profiling.profile import Profile
from tpack.callbacks.progress import EstimatedTimeLeft, ProgressBar, ThroughputTracker
from tpack.callbacks.resource_trackers import (
    GPUMemoryTracker,
    GPUUtilizationTracker,
    HostMemoryTracker,
    PeakMemoryTracker,
)
from tpack.callbacks.run_op import RunOp, RunUpdateOps
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.send_stat import SendMonitorData, SendStat
from tpack.callbacks.start_proc_or_thread import StartProcOrThread
from tpack.callbacks.stopping import EarlyStopping, MaxTime
from tpack.callbacks.summary import MergeAllSummaries, MovingAverageSummary, SimpleMovingAverage
from tpack.callbacks.tensors import (
    DumpParamAsImage,
    DumpTensor,
    DumpTensorAsImage,
    DumpTensors,
    ProcessTensors,
    TensorPrinter,
)
from tpack.callbacks.trigger import EnableCallbackIf, PeriodicCallback, PeriodicTrigger
from tpack.callbacks.watchdog import SessionRunTimeout, Watchdog
from tpack.callbacks.weight_averages.ema import EMA
from tpack.callbacks.weight_averages.swa import SWA
from tpack.errors import CallbackError
from tpack.multi_worker.cross_worker import MergeScalars, SlowestWorker
from tpack.utils.concurrency import StoppableThread

STEPS, EPOCHS = 3, 2


def validation():
    return flow([[np.ones(n, np.float32), np.ones(n, np.int32)] for n in (4, 4, 3)])


def some_param():
    return ObjAttrParam(SimpleNamespace(rate=1.0), "rate")


def evaluated_averages():
    ema = EMA(0.5)
    return Callbacks([ema.evaluate(RunOp(tf.no_op())), ema])


MEMBERS = {
    "Callback": Callback,
    "CSVWriter": CSVWriter,
    "CallbackFactory": CallbackFactory,
    "Callbacks": lambda: Callbacks([Callback(), RunOp(tf.no_op())]),
    "CheckNumerics": lambda: CheckNumerics(run_step=True),
    "DataParallelInferenceRunner": lambda: DataParallelInferenceRunner(
        validation(), BinaryClassificationStats("prediction", "label"), 2, "Parallel"
    ),
    "DumpParamAsImage": lambda: DumpParamAsImage("filter"),
    "DumpTensor": lambda: DumpTensor(["w_twice"]),
    "DumpTensorAsImage": lambda: DumpTensorAsImage("filter"),
    "DumpTensors": lambda: DumpTensors(["w_twice"]),
    "EMA": lambda: EMA(0.5),
    "EMA evaluated": evaluated_averages,
    "EarlyStopping": lambda: EarlyStopping("reported", patience=5, mode="min"),
    "MaxTime": lambda: MaxTime("1:00:00"),
    "EnableCallbackIf": lambda: EnableCallbackIf(CheckNumerics(), lambda self: self.epoch_num == 1),
    "EstimatedTimeLeft": EstimatedTimeLeft,
    "GPUMemoryTracker": GPUMemoryTracker,
    "GPUUtilizationTracker": GPUUtilizationTracker,
    "GraphProfiler": lambda: GraphProfiler(dump_event=True),
    "HookToCallback": lambda: HookToCallback(tf.train.SessionRunHook()),
    "HostMemoryTracker": HostMemoryTracker,
    "HumanHyperParamSetter": lambda: HumanHyperParamSetter(some_param()),
    "HyperParamSetterWithFunc": lambda: HyperParamSetterWithFunc(some_param(), lambda epoch, value: value + epoch),
    "InferenceRunner": lambda: InferenceRunner(validation(), [ClassificationError(), ScalarStats("score")]),
    "JSONWriter": JSONWriter,
    "MaxSaver": lambda: MaxSaver("reported"),
    "MergeScalars": lambda: MergeScalars({"reported": "mean"}),
    "MergeAllSummaries": lambda: MergeAllSummaries(period=2),
    "MergeAllSummaries alone": lambda: MergeAllSummaries(run_alone=True),
    "MinSaver": lambda: MinSaver("reported"),
    "ModelSaver": ModelSaver,
    "MonitorBase": MonitorBase,
    "Monitors": lambda: Monitors([ScalarPrinter()]),
    "MovingAverageSummary": MovingAverageSummary,
    "PeakMemoryTracker": PeakMemoryTracker,
    "PeriodicCallback": lambda: PeriodicCallback(RunOp(tf.no_op(), run_step=True), every_k_steps=2),
    "PeriodicTrigger": lambda: PeriodicTrigger(ModelSaver(), every_k_steps=2, before_train=True),
    "ProcessTensors": lambda: ProcessTensors(["w_twice"], abs),
    "ProgressBar": lambda: ProgressBar(["w_twice"]),
    "Profile": lambda: Profile((1, 2)),
    "ProxyCallback": lambda: ProxyCallback(RunOp(tf.no_op())),
    "SWA": SWA,
    "RunOp": lambda: RunOp(tf.no_op(), run_step=True),
    "RunUpdateOps": RunUpdateOps,
    "ScalarPrinter": lambda: ScalarPrinter(enable_step=True),
    "ScheduledHyperParamSetter": lambda: ScheduledHyperParamSetter(some_param(), [(0, 1), (1, 2)]),
    "ScheduledHyperParamSetter of steps": lambda: ScheduledHyperParamSetter(some_param(), [(2, 2)], step_based=True),
    "SendMonitorData": lambda: SendMonitorData("true {reported}", "reported"),
    "SendStat": lambda: SendStat("true {reported}", "reported"),
    "SessionRunTimeout": lambda: SessionRunTimeout(60000),
    "ScaleWithWorkers": lambda: ScaleWithWorkers(some_param(), "linear"),
    "SimpleMovingAverage": lambda: SimpleMovingAverage(["w_twice"], 2),
    "SlowestWorker": SlowestWorker,
    "StartProcOrThread": lambda: StartProcOrThread(StoppableThread(target=int)),
    "StatMonitorParamSetter": lambda: StatMonitorParamSetter(some_param(), "reported", abs, 0, 1),
    "TFEventWriter": TFEventWriter,
    "TensorBoardHParams": lambda: TensorBoardHParams({"rate": 0.1}),
    "TensorPrinter": lambda: TensorPrinter(["w_twice"]),
    "ThroughputTracker": ThroughputTracker,
    "Watchdog": lambda: Watchdog(600),
}

# Not members: what runs inside a runner, what is no callback, what only subclasses make work, what needs several
# towers, and what needs a client that is not installed here.
OTHERS = {
    "BinaryClassificationStats",
    "CallbackToHook",
    "ClassificationError",
    "CometMonitor",
    "GradientNoiseScale",
    "GraphVarParam",
    "HyperParam",
    "HyperParamSetter",
    "InferenceRunnerBase",
    "MLflowMonitor",
    "Inferencer",
    "ObjAttrParam",
    "ScalarStats",
    "WandbMonitor",
}

# What these add is meant to be saved.
AVERAGES = {"weight/ExponentialMovingAverage", "ExponentialMovingAverage/num_updates"}
SAVED = {"EMA": AVERAGES, "EMA evaluated": AVERAGES, "SWA": {"weight/SWA", "SWA/num_updates", "SWA/last_step"}}

each_member = pytest.mark.parametrize("make", MEMBERS.values(), ids=MEMBERS.keys())


def train(callback):
    """Train with the callback and one that reports, and return the trainer and the weight at the end."""
    trainer = make_trainer()
    weight = trainer.towers[0].get_variable("weight")
    found = {}
    report = CallbackFactory(
        trigger=lambda cb: cb.trainer.monitors.put_scalar("reported", cb.epoch_num),
        after_train=lambda cb: found.update(weight=float(cb.trainer.sess.run(weight))),
    )
    trainer.train([callback, report], steps_per_epoch=STEPS, epochs=(1, EPOCHS))
    return trainer, found["weight"]


def make_in_graph(make):
    tf.constant(2.0, name="w_twice")
    tf.ones([2, 2], name="filter")
    tf.summary.scalar("two", tf.constant(2.0))
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.no_op())
    return make()


def test_every_public_callback_is_a_member():
    assert {name.split()[0] for name in MEMBERS} | OTHERS == set(tpack.callbacks.__all__)


@pytest.mark.parametrize("name", MEMBERS)
def test_callback_neither_disturbs_training_nor_adds_what_is_saved_and_serves_one_training(graph, log_dir, name):
    callback = make_in_graph(MEMBERS[name])

    trainer, weight = train(callback)

    assert trainer.global_step == STEPS * EPOCHS
    assert weight == 1.0 + STEPS * EPOCHS
    saved = {v.op.name for v in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}
    assert saved == {"global_step", "weight"} | SAVED.get(name, set())
    assert [v.op.name for v in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)] == ["weight"]
    with type(graph)().as_default(), pytest.raises(CallbackError, match="was set up before"):
        callback.setup_graph(make_trainer())


@each_member
def test_callback_in_all_three_wrappers_goes_through_training(graph, log_dir, make):
    wrapped = EnableCallbackIf(PeriodicCallback(make_in_graph(make), every_k_epochs=2), lambda _: True)
    _, weight = train(ProxyCallback(wrapped))
    assert weight == 1.0 + STEPS * EPOCHS


@each_member
def test_callback_names_itself_and_obeys_chief_only(graph, log_dir, make):
    callback = make_in_graph(make)
    assert str(callback)
    assert "object at" not in str(callback)
    for chief_only in (True, False):
        assert callback.set_chief_only(chief_only).chief_only is chief_only


@each_member
def test_callback_does_only_what_it_implements(graph, log_dir, make):
    """A hook that a callback says it does not implement must have no effect, since the loop never calls it."""
    callback = make_in_graph(make)
    idle = [hook for hook in ("trigger_step", "before_run") if not callback.implements(hook)]
    trainer = make_trainer()
    trainer.steps_per_epoch = 100
    trainer.setup([callback])
    with trainer.sess:
        before = dict(vars(callback))
        results = [callback.before_run(None) if hook == "before_run" else callback.trigger_step() for hook in idle]
        assert results == [None] * len(idle)
        assert vars(callback) == before
