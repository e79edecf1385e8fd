"""Prediction on what an input source brings: values, the end of the data, failures, and nothing left behind."""

import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.predict_models import make_config, scores
from tests.helpers.source import ROOT
from tpack.dataflow.sources import DataFromGenerator, DataFromList
from tpack.errors import ConfigError, DataExhaustedError, InputError, TowerError
from tpack.input_source.dataset import TFDatasetInput
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import QueueInput
from tpack.input_source.staging import StagingInput
from tpack.predict import FeedfreePredictor

IMAGES = np.random.default_rng(2).normal(size=(4, 2, 3)).astype("float32")
POINTS = [[image, np.float32(0.5)] for image in IMAGES]


def flow():
    return DataFromList(POINTS, shuffle=False)


SOURCES = {
    "queue": lambda: QueueInput(flow()),
    "staged queue": lambda: StagingInput(QueueInput(flow())),
    "feed": lambda: FeedInput(flow(), infinite=True),
    "dataset": lambda: TFDatasetInput(
        lambda: tf.data.Dataset.from_tensor_slices((IMAGES, np.full(4, 0.5, "float32"))).repeat()
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_each_call_takes_the_next_data_point(name):
    before = threading.active_count()
    with FeedfreePredictor(make_config(), SOURCES[name]()) as predict:
        results = [predict()[0] for _ in range(6)]
        graph = predict.graph
    np.testing.assert_allclose(results, [scores(IMAGES[k % 4], 0.5) for k in range(6)], rtol=1e-5)
    assert graph.get_operation_by_name("scores") is not None
    assert threading.active_count() == before
    with pytest.raises(ConfigError, match="FeedfreePredictor is closed"):
        predict()
    predict.close()


def test_the_end_of_the_data_is_an_error():
    source = TFDatasetInput(lambda: tf.data.Dataset.from_tensor_slices((IMAGES, np.full(4, 0.5, "float32"))))
    with FeedfreePredictor(make_config(), source) as predict:
        for _ in range(4):
            predict()
        with pytest.raises(DataExhaustedError, match="no more data"):
            predict()


def test_data_that_fail_tell_why():
    def broken():
        yield POINTS[0]
        raise KeyError("no such file")

    with FeedfreePredictor(make_config(), QueueInput(DataFromGenerator(broken))) as predict:
        predict()
        with pytest.raises(InputError, match="no such file"):
            predict()


def test_a_source_that_cannot_start_leaves_nothing_behind():
    class Broken(QueueInput):
        def _reset_state(self):
            raise InputError("cannot start")

    with pytest.raises(InputError, match="cannot start"):
        FeedfreePredictor(make_config(), Broken(flow()))


@pytest.mark.parametrize(
    ("config", "source", "error", "message"),
    [
        (lambda: None, SOURCES["queue"], ConfigError, "FeedfreePredictor got config=None: expected a PredictConfig"),
        (make_config, flow, ConfigError, "input_source=a DataFromList: expected an InputSource"),
        (lambda: make_config(return_input=True), SOURCES["queue"], ConfigError, "return_input=True: expected False"),
        (lambda: make_config(output_names=["score"]), SOURCES["queue"], TowerError, "near names: scores"),
    ],
)
def test_what_cannot_work_is_refused(config, source, error, message):
    with pytest.raises(error, match=message):
        FeedfreePredictor(config(), source())


UNCLOSED = """
import atexit, threading
import tpack.predict.feedfree as feedfree
from tests.predict.test_feedfree import SOURCES
from tests.helpers.predict_models import make_config

atexit.register(lambda: print("closed", predict._is_closed, threading.active_count()))
predict = feedfree.FeedfreePredictor(make_config(), SOURCES["staged queue"]())
predict()
"""


def test_a_predictor_that_nobody_closed_is_closed_at_the_end_of_the_program():
    done = subprocess.run(
        [sys.executable, "-c", UNCLOSED], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["closed", "True", "1"]
