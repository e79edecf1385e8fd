import json

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.profiling.graph_profiler import GraphProfiler
from tpack.callbacks.trigger import EnableCallbackIf
from tpack.errors import CallbackError, ConfigError


class Events(MonitorBase):
    def __init__(self):
        self.events = []

    def process_event(self, evt):
        self.events.append(evt)


def test_traced_steps_are_written_under_their_numbers(graph, log_dir):
    events = Events()
    profiler = GraphProfiler(dump_metadata=True, dump_event=True)
    # The step that is about to run is not counted yet.
    enabled = EnableCallbackIf(profiler, lambda cb: cb.global_step in (1, 2))
    FakeTrainer().train([enabled], monitors=[events])

    names = {path.name for path in log_dir.iterdir()} - {"log.log"}
    assert names == {f"{name}{step}{end}" for step in (2, 3) for name, end in NAMES}
    trace = json.loads((log_dir / "chrome-trace-2.json").read_text())
    assert "AssignAddVariableOp" in {event.get("name") for event in trace["traceEvents"]}
    metadata = tf.RunMetadata.FromString((log_dir / "runmetadata-00000003.pb").read_bytes())
    assert metadata.step_stats.dev_stats
    assert [(event.step, event.tagged_run_metadata.tag) for event in events.events] == [(2, "step2"), (3, "step3")]
    assert events.events[1].tagged_run_metadata.run_metadata == metadata.SerializeToString()


NAMES = [("chrome-trace-", ".json"), ("runmetadata-0000000", ".pb")]


def test_only_what_is_asked_for_is_written(graph, log_dir):
    FakeTrainer().train([GraphProfiler()], epochs=(1, 1), steps_per_epoch=1)
    assert {path.name for path in log_dir.iterdir()} - {"log.log"} == {"chrome-trace-1.json"}


def test_no_more_steps_are_traced_than_are_wanted(graph, log_dir):
    with captured_log() as log_lines:
        FakeTrainer().train([GraphProfiler(num_steps=2)], epochs=(1, 1), steps_per_epoch=4)
    assert {path.name for path in log_dir.iterdir()} - {"log.log"} == {"chrome-trace-1.json", "chrome-trace-2.json"}
    assert sum("traces no more steps" in line for line in log_lines) == 1


def test_by_default_ten_steps_are_traced(graph, log_dir):
    FakeTrainer().train([GraphProfiler()], epochs=(1, 1), steps_per_epoch=12)
    assert len(list(log_dir.glob("chrome-trace-*.json"))) == 10


def test_all_steps_are_traced_if_that_is_wanted(graph, log_dir):
    FakeTrainer().train([GraphProfiler(num_steps=None)], epochs=(1, 1), steps_per_epoch=12)
    assert len(list(log_dir.glob("chrome-trace-*.json"))) == 12


def test_misuse_is_an_error(graph):
    with pytest.raises(ConfigError, match="num_steps"):
        GraphProfiler(num_steps=0)
    with pytest.raises(ConfigError, match="got no output: expected dump_metadata"):
        GraphProfiler(dump_tracing=False)
    with pytest.raises(CallbackError, match="got no logger directory"):
        FakeTrainer().setup([GraphProfiler()])
