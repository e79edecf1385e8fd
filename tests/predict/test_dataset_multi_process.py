"""Predictions by several processes: the numbers of one, a death with a name, and nothing left behind."""

import signal
import threading

import numpy as np
import psutil
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.predict_models import WEIGHTS, make_config, scores
from tpack.dataflow.repeat import RepeatedData
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, DeviceError, WorkerError
from tpack.predict import MultiProcessDatasetPredictor, SimpleDatasetPredictor, dataset
from tpack.tfutils.sessinit import DictRestore, SmartInit

POINTS = [[image, 0.5] for image in np.random.default_rng(2).normal(size=(7, 2, 3)).astype("float32")]


def flow():
    return DataFromList(POINTS, shuffle=False)


def model_of_a_lambda(image, factor):
    return tf.multiply(image, factor, name="scores")


def workers():
    # A child that has ended, and is not waited for yet, has no command line.
    running = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    return [child for child in running if "child_process" in " ".join(child.cmdline())]


def test_results_are_those_of_one_process_until_one_dies(tmp_path):
    config = make_config(
        session_init=SmartInit(save_checkpoint(tmp_path, WEIGHTS)), return_input=True, precision="bfloat16"
    )
    single = SimpleDatasetPredictor(config, flow())
    with single.predictor.sess:
        expected = single.get_all_result()
    # Without an end: on a busy machine a process that is killed goes on for seconds, and another takes its share.
    predictor = MultiProcessDatasetPredictor(config, RepeatedData(flow(), -1), 2, use_gpu=False)
    results = predictor.get_result()
    for (image, factor), outputs in expected:
        dp, (result,) = next(results)
        assert dp[0].tobytes() == image.tobytes()
        assert result.tobytes() == outputs[0].tobytes()
        np.testing.assert_allclose(result.astype("float32"), scores(image, factor), rtol=0.05, atol=0.05)
    children = workers()
    assert len(children) == 2
    children[1].send_signal(signal.SIGKILL)
    with pytest.raises(WorkerError, match=r"MultiProcessDatasetPredictor . of 2 \(process \d+\) was killed by SIGKILL"):
        for _ in results:
            pass
    assert not any(child.is_running() for child in children)


def test_unordered_results_are_the_same_in_any_order_and_errors_name_the_data_point():
    points = [*POINTS, [np.ones([1, 4]), 1.0]]
    config = make_config(tower_func=lambda image, factor: model_of_a_lambda(image, factor), session_init=None)
    results = MultiProcessDatasetPredictor(config, DataFromList(points, shuffle=False), 1, ordered=False).get_result()
    found = [next(results)[0].tobytes() for _ in POINTS]
    assert sorted(found) == sorted((image * np.float32(0.5)).tobytes() for image, _ in POINTS)
    with pytest.raises(WorkerError, match=r"1 of 1 .* failed on value 7: .*DataPointError: .*expected \(None, 3\)"):
        next(results)


def test_each_process_sees_one_gpu(monkeypatch):
    monkeypatch.setattr(dataset, "list_gpus", lambda: ["/device:GPU:0", "/device:GPU:1", "/device:GPU:2"])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def visible(nr_proc, **options):
        predictor = MultiProcessDatasetPredictor(make_config(), flow(), nr_proc, **options)
        return [environment["CUDA_VISIBLE_DEVICES"] for environment in predictor._environments]

    assert visible(2) == ["0", "1"]
    assert visible(2, use_gpu=False) == ["-1", "-1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5, 7,GPU-8932f937")
    assert visible(3) == ["5", "7", "GPU-8932f937"]
    with pytest.raises(DeviceError, match="got nr_proc=4: expected at most 3"):
        visible(4)
    assert visible(4, use_gpu=False) == ["-1"] * 4


def test_what_cannot_work_is_refused():
    for nr_proc in (0, 2.0, True):
        with pytest.raises(ConfigError, match="nr_proc"):
            MultiProcessDatasetPredictor(make_config(), flow(), nr_proc)
    init = DictRestore(WEIGHTS)
    init.lock = threading.Lock()
    with pytest.raises(ConfigError, match="the PredictConfig cannot be sent to another process: .*lock"):
        MultiProcessDatasetPredictor(make_config(session_init=init), flow(), 1)
    assert workers() == []
