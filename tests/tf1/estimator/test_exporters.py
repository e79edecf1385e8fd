"""The exporter of the best model, with the default of TensorFlow 1.15."""

import inspect

from tpack.tf1.estimator.exporters import BestExporter


def test_the_best_exporter_knows_earlier_runs():
    pattern = inspect.signature(BestExporter).parameters["event_file_pattern"]
    assert pattern.default == "eval/*.tfevents.*"
    assert BestExporter(serving_input_receiver_fn=print).name == "best_exporter"
