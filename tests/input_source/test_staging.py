"""Staging: where the areas are, how far ahead they run, and that an end of the data comes through."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import SIGNATURE, running
from tpack.dataflow import DataFromList
from tpack.errors import ConfigError, DataExhaustedError
from tpack.input_source import FeedInput, QueueInput, StagingInput, TensorInput, TFDatasetInput
from tpack.input_source.staging import _StagingArea


def counter():
    """Make tensors that count how often they were made."""
    with tf.variable_scope("", reuse=tf.AUTO_REUSE, use_resource=True):
        count = tf.get_variable("count", [], tf.int32, tf.zeros_initializer(), trainable=False)
    return [tf.zeros([1, 2]), tf.assign_add(count, 1)]


@pytest.mark.parametrize("nr_stage", [1, 3])
def test_the_areas_are_filled_ahead_by_nr_stage(graph, nr_stage):
    with running(StagingInput(TensorInput(counter), nr_stage=nr_stage)) as run:
        assert run.labels(4) == [1, 2, 3, 4]
        variable = next(v for v in tf.global_variables() if v.op.name == "count")
        assert run.trainer.sess.run(variable) == 4 + nr_stage


def test_each_tower_has_an_area_on_its_device(graph):
    with running(StagingInput(TensorInput(counter)), num_towers=3) as run:
        assert [area.stage.device for area in run.source.areas] == [f"/device:CPU:{k}" for k in range(3)]
        assert [area.clear.device for area in run.source.areas] == [f"/device:CPU:{k}" for k in range(3)]


def test_all_areas_are_on_a_device_that_is_given(graph):
    with running(StagingInput(TensorInput(counter), device="/cpu:5"), num_towers=2) as run:
        assert {area.stage.device for area in run.source.areas} == {"/device:CPU:5"}


def test_what_a_step_fetches_is_always_the_same_object(graph):
    with running(StagingInput(TensorInput(counter))) as run:
        callback = next(cb for cb in run.callbacks if isinstance(cb, StagingInput.StagingCallback))
        for fetches in (run.trainer.train_op, run.towers):
            ctx = SimpleNamespace(original_args=SimpleNamespace(fetches=fetches))
            assert callback.before_run(ctx) is callback.before_run(ctx)


def test_the_end_of_the_data_comes_through(graph):
    def make():
        return tf.data.Dataset.range(3, output_type=tf.int32).map(lambda k: (tf.zeros([1, 2]), k))

    with running(StagingInput(TFDatasetInput(make))) as run:
        assert run.labels(2) == [0, 1]
        with pytest.raises(DataExhaustedError, match="no more data"):
            run.step()


def test_an_end_while_the_areas_are_filled_comes_through(graph):
    def make():
        return tf.data.Dataset.range(1, output_type=tf.int32).map(lambda k: (tf.zeros([1, 2]), k))

    with pytest.raises(tf.errors.OutOfRangeError), running(StagingInput(TFDatasetInput(make), nr_stage=2)):
        pytest.fail("training began")


def test_reset_before_the_graph_is_set_up_does_nothing(graph):
    source = StagingInput(QueueInput(DataFromList([[np.zeros([1, 2]), 0]])))
    source.setup(SIGNATURE)
    with tf.Session().as_default():
        source.reset_state()
    assert source.areas == ()


def test_bad_arguments_are_errors():
    ds = DataFromList([])
    with pytest.raises(ConfigError, match="StagingInput got input=a FeedInput: expected a source that needs no feed"):
        StagingInput(FeedInput(ds))
    with pytest.raises(ConfigError, match="StagingInput got nr_stage=0: expected an integer of at least 1"):
        StagingInput(QueueInput(ds), nr_stage=0)
    with pytest.raises(ConfigError, match="canonical_device got .*: expected the name of a device"):
        StagingInput(QueueInput(ds), device="nowhere:x:y")


def test_values_come_out_in_order_and_clear_empties(session8):
    value = tf.placeholder(tf.int32, [])
    with tf.device("/device:CPU:3"):
        first, second = _StagingArea([value, value + 1]), _StagingArea([value])
    for k in (1, 2, 3):
        session8.run(first.stage, {value: k})
    session8.run(second.stage, {value: 10})
    assert session8.run(first.outputs) == [1, 2]
    session8.run(first.clear)
    session8.run(first.stage, {value: 7})
    assert session8.run(first.outputs) == [7, 8]
    assert session8.run(second.outputs) == [10]
    assert {op.device for op in (first.stage, first.clear, first.outputs[0].op)} == {"/device:CPU:3"}
    assert first.outputs[0].shape == []
