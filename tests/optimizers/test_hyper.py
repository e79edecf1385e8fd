import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError, WrongTypeError
from tpack.optimizers.hyper import BIASES_AND_NORMS, LeftOut
from tpack.optimizers.weight_decay import LAMB, LARS, AdamW, Lion
from tpack.schedules import Cosine
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tower.context import TrainTowerContext

KINDS = (AdamW, LAMB, LARS, Lion)


@pytest.mark.parametrize("kind", KINDS)
def test_hyper_parameters_that_cannot_be_are_refused(graph, kind):
    cases = {
        "learning_rate=-0.1: expected a number of at least 0": {"learning_rate": -0.1},
        "learning_rate of shape": {"learning_rate": tf.zeros([2])},
        "weight_decay of shape": {"weight_decay": np.zeros([2])},
        "weight_decay=-1": {"weight_decay": -1},
        r"no_decay='\(': expected a regular expression": {"no_decay": ["b$", "("]},
        "learning_rate=a Cosine: expected a number or a tensor": {"learning_rate": Cosine(0.1, 0, 10)},
        "a function with arguments.*ScheduledHyperParamSetter": {"learning_rate": lambda step: 0.1 * step},
        ("momentum" if kind is LARS else "beta1") + "=1.5": {"momentum" if kind is LARS else "beta1": 1.5},
    }
    for message, wrong in cases.items():
        with pytest.raises(ConfigError, match=message):
            kind(**{"learning_rate": 0.1, **wrong})
    with pytest.raises(WrongTypeError, match="learning_rate='fast'"):
        kind("fast")


@pytest.mark.parametrize("rate", [0.1, np.float32(0.1), np.array(0.1), 1, lambda: 0.1, max])
def test_hyper_parameters_of_all_kinds_are_taken(graph, rate):
    assert check_optimizer(Lion(rate, tf.constant(0.1))).get_name() == "Lion"
    assert check_optimizer(LARS(rate, momentum=tf.get_variable("momentum", initializer=0.9))).get_name() == "LARS"


@pytest.mark.parametrize(
    ("name", "is_matched"),
    [
        ("conv0/b", True),
        ("b", True),
        ("dense/bias", True),
        ("dense/bias_1", True),
        ("Conv/biases", True),
        ("bn/gamma", True),
        ("layer_normalization/beta", True),
        ("norm/scale", True),
        ("conv0/W", False),
        ("dense/kernel", False),
        ("bias/W", False),
        ("club", False),
    ],
)
def test_biases_and_what_normalises_are_matched(graph, name, is_matched):
    variable = tf.get_variable(name, [2])
    assert LeftOut("AdamW", "no_decay", BIASES_AND_NORMS, "weight decay").has(variable) == is_matched


def test_names_are_those_of_the_main_tower(graph):
    with TrainTowerContext("tower1", vs_name="tower1", index=1, total=2):
        variable = tf.get_variable("fc/W", [2])
        assert variable.op.name == "tower1/fc/W"
        assert LeftOut("AdamW", "no_decay", "^fc", "weight decay").has(variable)


def test_the_log_says_what_is_left_out_and_which_pattern_finds_nothing(graph):
    w, b, c = (tf.get_variable(name, [2]) for name in ("fc/W", "fc/b", "c"))
    with captured_log() as lines:
        AdamW(0.1, no_decay=[BIASES_AND_NORMS, "wieght"]).minimize(tf.reduce_sum(w + b), var_list=[w, b, c])
        AdamW(0.1).minimize(tf.reduce_sum(w))
        with TrainTowerContext("tower1", vs_name="tower1", index=1, total=2):
            Lion(0.1, no_decay="W").apply_gradients([(tf.zeros([2]), w)])
    assert lines == [
        "AdamW: no weight decay for 1 of 2 variables: fc/b",
        "AdamW: no_decay has 'wieght', which is in no variable's name",
    ]
