"""Older names of arguments mean those of today, wherever arguments are checked."""

import inspect

import pytest
import tensorflow.compat.v1 as tf

from tpack.dataflow import DataFromList, MultiThreadMapData
from tpack.errors import ConfigError
from tpack.legacy.arguments import with_todays_arguments
from tpack.predict.online import OnlinePredictor
from tpack.train.config import TrainConfig
from tpack.utils.argtools import get_data_format


def translated(function, **kwargs):
    return with_todays_arguments(inspect.signature(function), function.__qualname__, (), kwargs)


def test_an_older_name_means_that_of_today():
    assert MultiThreadMapData(DataFromList([[1]]), nr_thread=3, map_func=list).num_thread == 3


def test_names_that_are_known_or_strange_stay():
    def function(nr_proc, num_proc, nothing_else=0):
        return nr_proc, num_proc, nothing_else

    assert translated(function, nr_proc=1, strange=2) == {"nr_proc": 1, "strange": 2}
    assert translated(lambda num_proc: num_proc, nr_proc=1) == {"num_proc": 1}


def test_strange_names_are_refused_as_ever():
    with pytest.raises(TypeError, match="nr_threads"):
        MultiThreadMapData(DataFromList([[1]]), nr_threads=3, map_func=list)


@pytest.mark.parametrize(("tfmode", "expected"), [(True, "NCHW"), (False, "channels_first")])
def test_tfmode_is_the_contrary_of_keras_mode(tfmode, expected):
    assert get_data_format("NCHW", tfmode=tfmode) == expected


def test_towers_of_a_config_are_kept_for_the_trainer():
    flow = DataFromList([[1]] * 6)
    config = TrainConfig(dataflow=flow, nr_tower=2, predict_tower=[0, 1], step_per_epoch=3)
    assert (config.nr_tower, config.predict_tower, config.steps_per_epoch) == (2, [0, 1], 3)
    assert TrainConfig(dataflow=flow, tower=[0, 1]).nr_tower == [0, 1]


def test_a_wrong_value_is_refused_by_todays_name():
    with pytest.raises(ConfigError, match="num_thread"):
        MultiThreadMapData(DataFromList([[1]]), nr_thread=0, map_func=list)


def test_a_predictor_in_a_session_is_called_so(session8):
    inputs = [tf.placeholder(tf.float32, [], name) for name in "ab"]
    predictor = OnlinePredictor(inputs, [inputs[0] - inputs[1]])
    assert predictor([3.0, 1.0]) == predictor(3.0, 1.0) == [2.0]
