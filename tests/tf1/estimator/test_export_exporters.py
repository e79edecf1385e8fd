"""The exporters that TensorFlow 1.15 has besides those of tpack, or with another default."""

import inspect

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError
from tpack.tf1 import contrib
from tpack.tf1.estimator.export import BestExporter, StepsExporter


def test_the_best_exporter_knows_earlier_runs():
    pattern = inspect.signature(BestExporter).parameters["event_file_pattern"]
    assert pattern.default == "eval/*.tfevents.*"
    assert BestExporter(serving_input_receiver_fn=print).name == "best_exporter"


class Model:
    """Stands for an Estimator that has made its exports."""

    def __init__(self, model_dir):
        self.model_dir = str(model_dir)
        (model_dir / "export").mkdir()

    def export_saved_model(self, base, receive, **options):
        return f"{base} {options['checkpoint_path']}"


def exported_at(exporter, model, steps):
    """Return at which of some steps a model is exported."""
    base = f"{model.model_dir}/export"
    return [step for step in steps if exporter.export(model, base, f"ckpt-{step}", {"global_step": step}, False)]


def test_steps_are_exported_at_the_next_evaluation(tmp_path):
    model = Model(tmp_path)
    exporter = contrib.estimator.StepsExporter([30, 10, 14], serving_input_receiver_fn=print)
    with captured_log() as log:
        assert exported_at(exporter, model, [5, 10, 20, 25, 30, 40]) == [10, 20, 30]
    assert "steps_exporter exports at step 20, since no evaluation was at 14" in "".join(log)


def test_what_earlier_runs_exported_is_not_due_again(tmp_path):
    model = Model(tmp_path)
    with tf.Graph().as_default(), tf.summary.FileWriter(str(tmp_path / "eval")) as writer:
        for step in (10, 20):
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=1.0)]), step)
    again = StepsExporter([10, 20, 30], serving_input_receiver_fn=print)
    assert exported_at(again, model, [20, 40]) == [20, 40]
    anew = StepsExporter([10, 20, 30], serving_input_receiver_fn=print, event_file_pattern=None)
    assert exported_at(anew, model, [11, 12, 20, 21]) == [11, 20]


@pytest.mark.parametrize("steps", [[], [0, 2], [2.5]])
def test_steps_that_are_none_are_refused(steps):
    with pytest.raises(ConfigError, match="StepsExporter got steps_to_keep="):
        StepsExporter(steps, serving_input_receiver_fn=print)
