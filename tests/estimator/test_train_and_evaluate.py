"""A model is evaluated at its checkpoints while it trains, and exported."""

import os

import pytest
import tensorflow.compat.v1 as tf

from tests.estimator.test_training import counting
from tests.helpers.log_lines import captured_log
from tpack.errors import WrongTypeError
from tpack.estimator.estimator import Estimator
from tpack.estimator.exporters import Exporter
from tpack.estimator.run_config import RunConfig
from tpack.estimator.train_and_evaluate import EvalSpec, TrainSpec, _Evaluator, train_and_evaluate


class Noting(Exporter):
    """Notes what it is asked for, and exports at some steps."""

    def __init__(self, at=()):
        self.asked, self.at = [], at

    @property
    def name(self):
        return "noting"

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        step = int(eval_result["global_step"])
        assert checkpoint_path == os.path.join(estimator.model_dir, f"model.ckpt-{step}")
        assert export_path == os.path.join(estimator.model_dir, "export", "noting")
        self.asked.append((step, is_the_final_export))
        return f"path {step}" if step in self.at else None


def estimator_in(directory, **options):
    return Estimator(counting, str(directory), RunConfig(**options))


def numbers(number):
    return lambda: tf.data.Dataset.range(1, number + 1)


@pytest.mark.parametrize("max_steps", [6, None])
@pytest.mark.parametrize("exports_at", [(), (6,)])
def test_every_checkpoint_but_the_first_is_evaluated(tmp_path, max_steps, exports_at):
    exporter = Noting(exports_at)
    estimator = estimator_in(tmp_path, save_checkpoints_steps=3)
    evaluated = EvalSpec(numbers(4), name="n", exporters=exporter, throttle_secs=0)
    result, exports = train_and_evaluate(
        estimator, TrainSpec(numbers(6 if max_steps is None else 9), max_steps), evaluated
    )
    assert (result["global_step"], result["loss"]) == (6, 2.5)
    # What was exported already is not exported again when it turns out to be the last one.
    assert exporter.asked == [(3, False), (6, False), *([] if exports_at else [(6, True)])]
    assert exports == (["path 6"] if exports_at else [None])
    assert os.path.isdir(estimator.eval_dir("n"))


def test_the_last_checkpoint_is_evaluated_however_soon(tmp_path):
    exporter = Noting()
    estimator = estimator_in(tmp_path, save_checkpoints_steps=2)
    with captured_log() as lines:
        train_and_evaluate(estimator, TrainSpec(numbers(7)), EvalSpec(numbers(1), exporters=[exporter]))
    assert exporter.asked == [(2, False), (7, True)]
    assert lines.count("This checkpoint is not evaluated: throttle_secs is 600.") == 3


def test_a_model_that_needs_no_training_is_evaluated(tmp_path):
    exporter = Noting()
    estimator = estimator_in(tmp_path).train(numbers(3))
    train_spec = TrainSpec(lambda: 1 / 0, max_steps=3)
    result, exports = train_and_evaluate(estimator, train_spec, EvalSpec(numbers(2), exporters=[exporter]))
    assert (result["global_step"], exporter.asked, exports) == (3, [(3, True)], [None])


def test_hooks_and_steps_arrive(tmp_path):
    class Hook(tf.train.SessionRunHook):
        def __init__(self):
            self.num_runs = 0

        def after_run(self, run_context, run_values):
            self.num_runs += 1

    hooks = Hook(), Hook()
    specs = TrainSpec(numbers(9), 5, hooks[:1]), EvalSpec(numbers(9), steps=2, hooks=hooks[1:])
    train_and_evaluate(estimator_in(tmp_path), *specs)
    assert [hook.num_runs for hook in hooks] == [5, 2]


def test_time_is_counted_from_the_beginning_of_an_evaluation(tmp_path):
    estimator = estimator_in(tmp_path).train(numbers(1))
    now = [100.0]
    exporter = Noting()
    evaluator = _Evaluator(estimator, EvalSpec(numbers(1), exporters=exporter, throttle_secs=10), lambda: now[0])
    for now[0], expected in [(100, 1), (109, 1), (110, 2), (119, 2), (121, 3)]:
        evaluator.evaluate_unless_recent()
        assert len(exporter.asked) == expected


def test_what_cannot_be_is_refused(tmp_path):
    train_spec, eval_spec = TrainSpec(numbers(1)), EvalSpec(numbers(1))
    for arguments in [(1, train_spec, eval_spec), (estimator_in(tmp_path), eval_spec, train_spec)]:
        with pytest.raises(WrongTypeError, match="^train_and_evaluate got "):
            train_and_evaluate(*arguments)
