"""The two specs keep what they are given and refuse what cannot be."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.exporters import FinalExporter
from tpack.estimator.train_and_evaluate import EvalSpec, TrainSpec


def input_fn():
    """Not called."""


def test_fields_and_defaults():
    hook, exporter = tf.train.SessionRunHook(), FinalExporter("a", print)
    assert TrainSpec(input_fn) == (input_fn, None, (), None)
    assert TrainSpec(input_fn, 3, [hook]) == (input_fn, 3, (hook,), None)
    assert EvalSpec(input_fn) == (input_fn, 100, None, (), (), 120, 600, None)
    assert EvalSpec(input_fn, exporters=exporter).exporters == (exporter,)
    spec = EvalSpec(input_fn, None, "n", [hook], [exporter, FinalExporter("b", print)], 1, 0)
    assert (spec.steps, spec.name, spec.hooks, spec.throttle_secs) == (None, "n", (hook,), 0)
    assert [exporter.name for exporter in spec.exporters] == ["a", "b"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrainSpec(1), "the data are 1: expected a DataFlow, arrays"),
        (lambda: TrainSpec(input_fn, 0), "TrainSpec got max_steps=0: expected a positive whole number"),
        (lambda: TrainSpec(input_fn, hooks=[1]), r"got hooks\[0\]=1"),
        (lambda: EvalSpec(None), "the data are None: expected a DataFlow, arrays"),
        (lambda: EvalSpec([[1]], batch_size=0), "batch_size=0: expected an integer of at least 1"),
        (lambda: EvalSpec(input_fn, steps=-1), "EvalSpec got steps=-1: expected a positive"),
        (lambda: EvalSpec(input_fn, hooks=[1]), r"got hooks\[0\]=1"),
        (
            lambda: EvalSpec(input_fn, throttle_secs=-1),
            "EvalSpec got throttle_secs=-1: expected a number of at least 0",
        ),
        (lambda: EvalSpec(input_fn, start_delay_secs=-1), "EvalSpec got start_delay_secs=-1"),
        (lambda: EvalSpec(input_fn, exporters=[1]), r"^EvalSpec got exporters\[0\]="),
        (
            lambda: EvalSpec(input_fn, exporters=[FinalExporter("a", print)] * 2),
            "EvalSpec got exporters of the names a, a: expected different ones",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
