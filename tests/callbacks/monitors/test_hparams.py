import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from google.protobuf import struct_pb2

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.monitors.hparams import TensorBoardHParams, _entry, _field
from tpack.errors import CallbackError


def fail(callback):
    raise ValueError("no more")


def messages(log_dir):
    """Return {tag: the message of the plugin} of the files, in the order in which TensorBoard reads them."""
    found = {}
    for path in sorted(log_dir.glob("*.hparams")):
        for record in tf.python_io.tf_record_iterator(str(path)):
            for value in tf.Event.FromString(record).summary.value:
                assert value.metadata.plugin_data.plugin_name == "hparams"
                found[value.tag] = value.metadata.plugin_data.content
    return found


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (0.25, "number_value", 0.25),
        (np.int64(18), "number_value", 18),
        (True, "bool_value", True),
        (np.bool_(False), "bool_value", False),
        ("ä" * 300, "string_value", "ä" * 300),
        ([1, 2], "string_value", "[1, 2]"),
        (math.inf, "number_value", math.inf),
    ],
)
def test_values_are_messages_as_protocol_buffers_write_them(value, kind, said):
    message = struct_pb2.Struct.FromString(_field(1, _field(1, b"x") + _field(2, b"")) + _entry_as_field("name", value))
    assert message.fields["name"].WhichOneof("kind") == kind
    assert getattr(message.fields["name"], kind) == said


def _entry_as_field(name, value):
    # A Struct is a map of names to values, too, in its first field.
    return _field(1, _entry(name, value))


def test_a_run_has_a_beginning_and_an_end_and_a_resumed_one_takes_their_place(graph, log_dir):
    with pytest.raises(ValueError, match="no more"):
        FakeTrainer().train([CallbackFactory(trigger=fail)], monitors=[TensorBoardHParams({"rate": 1})])
    assert messages(log_dir)["_hparams_/session_end_info"][2:4] == bytes([1 << 3, 2])
    with tf.Graph().as_default():
        FakeTrainer().train([], monitors=[TensorBoardHParams({"rate": 1})], epochs=(2, 2), global_step=2)
    assert list(messages(log_dir)) == ["_hparams_/session_start_info", "_hparams_/session_end_info"]
    assert messages(log_dir)["_hparams_/session_end_info"][2:4] == bytes([1 << 3, 1])
    with tf.Graph().as_default():
        FakeTrainer().train([], monitors=[TensorBoardHParams({"rate": 1})], epochs=(3, 3), interrupt_at=1)
    assert list(messages(log_dir)) == ["_hparams_/session_start_info"]


def test_where_nothing_can_be_written_is_said(graph, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CallbackError, match="TensorBoardHParams cannot write to .*file/logs"):
        FakeTrainer().train([], monitors=[TensorBoardHParams({}, logdir=tmp_path / "file" / "logs")])


def test_without_a_directory_it_says_so(graph):
    with captured_log() as lines:
        FakeTrainer().train([], monitors=[TensorBoardHParams({})])
    assert lines == [
        "TensorBoardHParams writes nothing: neither its logdir nor the logger's directory is set; use "
        "logger.set_logger_dir(path), or log_dir of TrainConfig or fit"
    ]
