import os

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.monitors.writers import ScalarPrinter, TFEventWriter
from tpack.errors import CallbackError


def read_events(directory):
    names = sorted(name for name in os.listdir(directory) if "tfevents" in name)
    return [event for name in names for event in tf.train.summary_iterator(os.path.join(directory, name))]


def run(directory=None, **training):
    report = CallbackFactory(trigger=lambda cb: cb.trainer.monitors.put_scalar("cost", cb.epoch_num / 2))
    extra = CallbackFactory(after_train=lambda cb: cb.trainer.monitors.put_event(tf.Event(file_version="mine")))
    options = {} if directory is None else {"logdir": str(directory)}
    options.update(training.pop("options", {}))
    FakeTrainer().train([report, extra], monitors=[TFEventWriter(**options)], steps_per_epoch=3, **training)


@pytest.mark.parametrize("in_logger_dir", [False, True])
def test_scalars_events_and_graph_are_written(graph, log_dir, tmp_path, in_logger_dir):
    directory = log_dir if in_logger_dir else tmp_path / "events"
    run(None if in_logger_dir else directory)
    events = read_events(directory)
    scalars = [(e.step, v.tag, v.simple_value) for e in events for v in e.summary.value]
    assert scalars == [(3, "cost", 0.5), (6, "cost", 1.0)]
    assert any(e.graph_def for e in events)
    assert [e.step for e in events if e.file_version == "mine"] == [6]
    assert not [e for e in events if e.HasField("session_log")]


def test_a_large_graph_is_written_without_shapes(tmp_path, monkeypatch):
    for name, most in (("small", 10_000), ("large", 1)):
        monkeypatch.setattr("tpack.callbacks.monitors.writers._MOST_WITH_SHAPES", most)
        with tf.Graph().as_default():
            run(tmp_path / name)
    small, large = (
        next(tf.GraphDef.FromString(e.graph_def) for e in read_events(tmp_path / name) if e.graph_def)
        for name in ("small", "large")
    )
    assert any("_output_shapes" in node.attr for node in small.node)
    assert not any("_output_shapes" in node.attr for node in large.node)
    assert [node.name for node in small.node] == [node.name for node in large.node]


def test_resumed_run_marks_where_it_starts(graph, tmp_path):
    run(tmp_path, epochs=(3, 3), global_step=6)
    marks = [e for e in read_events(tmp_path) if e.HasField("session_log")]
    assert [(e.step, e.session_log.status) for e in marks] == [(7, tf.SessionLog.START)]


def test_what_is_reported_before_training_is_written(graph, tmp_path):
    report = CallbackFactory(before_train=lambda cb: cb.trainer.monitors.put_scalar("accuracy", 0.25))
    FakeTrainer().train([report], monitors=[TFEventWriter(str(tmp_path))])
    scalars = [(e.step, v.tag, v.simple_value) for e in read_events(tmp_path) for v in e.summary.value]
    assert scalars == [(0, "accuracy", 0.25)]


def test_files_can_be_split_by_epoch(graph, tmp_path):
    run(tmp_path, options={"split_files": True})
    assert len([name for name in os.listdir(tmp_path) if "tfevents" in name]) == 3
    scalars = [e.step for e in read_events(tmp_path) for v in e.summary.value]
    assert sorted(scalars) == [3, 6]


def test_events_go_wherever_tensorflow_writes(graph):
    FakeTrainer().train([], monitors=[TFEventWriter("ram://events")])
    assert len(tf.io.gfile.listdir("ram://events")) == 1


def test_a_place_that_tensorflow_cannot_write_to_is_an_error_in_words(graph):
    with pytest.raises(CallbackError, match="TFEventWriter cannot write to nowhere://events: .*not implemented"):
        FakeTrainer().train([], monitors=[TFEventWriter("nowhere://events")])


def test_without_a_directory_nothing_is_written(graph):
    with captured_log() as lines:
        run()
    assert lines == [
        "TFEventWriter writes nothing: neither its logdir nor the logger's directory is set; use "
        "logger.set_logger_dir(path), or log_dir of TrainConfig or fit"
    ]


class Reports(Callback):
    def _trigger_step(self):
        self.trainer.monitors.put_scalar("step/time", self.global_step)

    def _trigger(self):
        self.trainer.monitors.put_scalar("error", 0.123456789)
        self.trainer.monitors.put_scalar("cost", float("nan"))


EPOCH = ["cost: nan", "error: 0.12346"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [*EPOCH, "step/time: 2"]),
        ({"enable_step": True}, ["step/time: 1", "step/time: 2", *EPOCH]),
        ({"enable_step": True, "enable_epoch": False}, ["step/time: 1", "step/time: 2"]),
        ({"whitelist": ["err", "c"]}, EPOCH),
        ({"whitelist": []}, []),
        ({"blacklist": [".*or"]}, ["cost: nan", "step/time: 2"]),
        ({"whitelist": ["cost", "error"], "blacklist": ["cost"]}, ["error: 0.12346"]),
    ],
)
def test_printer_logs_what_came(graph, options, expected):
    with captured_log() as lines:
        FakeTrainer().train([Reports()], monitors=[ScalarPrinter(**options)], steps_per_epoch=2, epochs=(1, 1))
    assert lines == expected


def test_printer_asks_for_steps_only_when_enabled():
    assert not ScalarPrinter().implements("trigger_step")
    assert ScalarPrinter(enable_step=True).implements("trigger_step")


def test_printer_logs_each_value_once(graph):
    class Once(Callback):
        def _before_train(self):
            self.trainer.monitors.put_scalar("start", 1)

    with captured_log() as lines:
        FakeTrainer().train([Once()], monitors=[ScalarPrinter()], epochs=(1, 3))
    assert lines == ["start: 1"]


def test_two_files_of_one_second_have_two_names(graph, log_dir, monkeypatch):
    suffixes = []
    make = tf.summary.FileWriter

    def note(*args, filename_suffix=None, **kwargs):
        suffixes.append(filename_suffix)
        return make(*args, filename_suffix=filename_suffix, **kwargs)

    monkeypatch.setattr(tf.summary, "FileWriter", note)
    FakeTrainer().train([], monitors=[TFEventWriter(), TFEventWriter(split_files=True)], epochs=(1, 2))
    assert len(set(suffixes)) == len(suffixes) == 4
    assert len(list(log_dir.glob("events.*"))) == 4
