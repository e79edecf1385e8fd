"""Training that ends early: by a function, and by what evaluations wrote."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.session import write_results
from tpack.tf1.estimator import hooks
from tpack.tf1.estimator.baseline import BaselineRegressor

RESULTS = {10: 3.0, 20: 1.0, 30: 2.0, 40: 1.5}


@pytest.fixture
def estimator(tmp_path):
    made = BaselineRegressor(str(tmp_path))
    for step, value in RESULTS.items():
        write_results(made.eval_dir(), {"loss": value, "score": -value}, step)
    return made


def asked(hook):
    """Return whether a hook wants to stop."""
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.create_global_step()
        session.run(tf.global_variables_initializer())
        hook.begin()
        arguments = tf.train.SessionRunArgs(step)
        context = tf.train.SessionRunContext(arguments, session)
        assert hook.before_run(context) is None
        hook.after_run(context, tf.train.SessionRunValues(None, None, None))
        return context.stop_requested


def test_results_are_read_by_steps(estimator):
    found = hooks.read_eval_metrics(estimator.eval_dir())
    assert {step: results["loss"] for step, results in found.items()} == RESULTS


def test_thresholds_and_progress_decide(estimator):
    stop = hooks
    cases = [
        (stop.stop_if_higher_hook, "loss", 2.5, 0, True),
        (stop.stop_if_higher_hook, "loss", 2.5, 20, False),
        (stop.stop_if_lower_hook, "loss", 0.5, 0, False),
        (stop.stop_if_lower_hook, "loss", 1.2, 0, True),
        (stop.stop_if_no_decrease_hook, "loss", 20, 0, True),
        (stop.stop_if_no_decrease_hook, "loss", 21, 0, False),
        (stop.stop_if_no_increase_hook, "score", 20, 0, True),
        (stop.stop_if_no_increase_hook, "score", 20, 30, False),
    ]
    for make, metric, limit, min_steps, expected in cases:
        hook = make(estimator, metric, limit, min_steps=min_steps, run_every_secs=None, run_every_steps=1)
        assert asked(hook) == expected, (make.__name__, limit, min_steps)
    with pytest.raises(ConfigError, match="got metric_name='los' for .*: expected one of loss, score"):
        asked(stop.stop_if_lower_hook(estimator, "los", 1.0))


def test_a_function_ends_training_when_it_is_asked(estimator):
    answers = iter([False, True])
    hook = hooks.make_early_stopping_hook(estimator, lambda: next(answers), None, 2)
    features = {"x": [1.0, 2.0]}
    estimator.train(lambda: tf.data.Dataset.from_tensors((features, [1.0, 1.0])).repeat(), hooks=[hook], steps=50)
    assert estimator.get_variable_value("global_step") == 3
    for secs, steps in ((None, None), (60, 1)):
        with pytest.raises(ConfigError, match="run_every_steps=.*: expected one of them"):
            hooks.make_early_stopping_hook(estimator, lambda: False, secs, steps)
