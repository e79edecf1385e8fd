"""The best model is exported, be it of this run or of one before."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.replicated_models import batch, regression
from tpack.errors import ConfigError, WrongTypeError
from tpack.estimator.estimator import Estimator
from tpack.estimator.exporters import BestExporter, loss_smaller
from tpack.estimator.inputs import build_raw_serving_input_receiver_fn
from tpack.estimator.session import write_results


def receive():
    """Stand for a serving_input_receiver_fn."""


class Exporting:
    """Stands for an Estimator: each export has a number."""

    def __init__(self, model_dir):
        self.model_dir, self.num = str(model_dir), 0

    def export_saved_model(self, base, receive, **options):
        self.num += 1
        return str(self.num)


def export(exporter, estimator, loss, step=9, **results):
    result = {"loss": loss, "global_step": step, **results}
    return exporter.export(estimator, estimator.model_dir, "checkpoint", result, False)


def test_better_models_are_exported(tmp_path):
    estimator, exporter = Exporting(tmp_path), BestExporter("best", receive)
    assert [export(exporter, estimator, loss) for loss in (3.0, 4.0, 2.0, 2.0, 1.0)] == ["1", None, "2", None, "3"]


def test_what_is_better_can_be_said(tmp_path):
    def more_accurate(best_eval_result, current_eval_result):
        return current_eval_result["accuracy"] > best_eval_result["accuracy"]

    estimator, exporter = Exporting(tmp_path), BestExporter(serving_input_receiver_fn=receive, compare_fn=more_accurate)
    assert exporter.name == "best_exporter"
    assert [export(exporter, estimator, 1.0, accuracy=value) for value in (0.5, 0.4, 0.6)] == ["1", None, "2"]


def test_results_of_earlier_runs_count(tmp_path):
    for step, loss in [(1, 5.0), (2, 3.0), (4, 0.5)]:
        write_results(str(tmp_path / "eval"), {"loss": loss, "global_step": step, "text": "no"}, step)
    estimator = Exporting(tmp_path)
    exporter = BestExporter("best", receive, "eval/*.tfevents.*")
    # Those of this step and later ones are of this run, or of one that was undone.
    assert export(exporter, estimator, 3.5, step=4) is None
    assert export(exporter, estimator, 2.5, step=5) == "1"
    assert export(BestExporter("best", receive, "nothing/*"), estimator, 3.5, step=4) == "2"


def test_what_is_exported_is_a_model(tmp_path, rng):
    data = batch(rng)
    estimator = Estimator(regression, str(tmp_path)).train(lambda: tf.data.Dataset.from_tensors(data))
    exporter = BestExporter("best", build_raw_serving_input_receiver_fn(data[0]))
    path = exporter.export(estimator, str(tmp_path / "e"), estimator.latest_checkpoint(), {"loss": 1.0}, False)
    assert tf.saved_model.contains_saved_model(path)


def test_what_cannot_be_is_refused():
    with pytest.raises(WrongTypeError, match="^BestExporter got compare_fn="):
        BestExporter("best", receive, compare_fn=3)
    with pytest.raises(ConfigError, match="got a result of accuracy: expected a loss"):
        loss_smaller({"loss": 1}, {"accuracy": 1})
