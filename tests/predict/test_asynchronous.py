"""Predictions asked for one by one: batches, results, errors that reach the right future, and no trace at the end."""

import threading
from concurrent.futures import CancelledError

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.predict_models import make_config
from tpack.errors import ConfigError, DataPointError
from tpack.predict import MultiThreadAsyncPredictor, MultiTowerOfflinePredictor, OnlinePredictor

WAIT_SECS = 300


def row(image):
    return tf.reduce_sum(image, 1, name="sum")


@pytest.fixture(scope="module")
def towers():
    config = make_config(
        tower_func=row,
        input_signature=[tf.TensorSpec([None, 3], tf.float32, "image")],
        output_names=["sum"],
        session_init=None,
    )
    predictor = MultiTowerOfflinePredictor(config, 2)
    yield predictor.get_predictors()
    predictor.sess.close()


class Gated(OnlinePredictor):
    """Notes the sizes of its batches, and waits before each until it is let go on."""

    def __init__(self, predictor, fail_with=None):
        super().__init__(predictor.input_tensors, predictor.output_tensors, sess=predictor.sess)
        self.entered, self.may_go_on = threading.Semaphore(0), threading.Semaphore(0)
        self.sizes = []
        self.fail_with = fail_with

    def _do_call(self, dp):
        self.sizes.append(len(dp[0]))
        self.entered.release()
        self.may_go_on.acquire(timeout=WAIT_SECS)
        if self.fail_with is not None:
            raise self.fail_with
        return super()._do_call(dp)


def test_results_are_those_of_each_data_point(towers, rng):
    before = threading.active_count()
    images = rng.normal(size=(50, 3)).astype("float32")
    seen = []
    with MultiThreadAsyncPredictor(towers, batch_size=4) as predictor:
        futures = [predictor.put_task([image], seen.append) for image in images]
        results = [future.result(WAIT_SECS) for future in futures]
    np.testing.assert_allclose(np.ravel(results), images.sum(1), rtol=1e-5)
    assert sorted(map(id, seen)) == sorted(map(id, futures))
    assert threading.active_count() == before


def test_what_waits_becomes_a_batch(towers):
    gated = Gated(towers[0])
    with MultiThreadAsyncPredictor([gated], batch_size=3) as predictor:
        futures = [predictor.put_task([np.ones(3)])]
        assert gated.entered.acquire(timeout=WAIT_SECS)
        futures += [predictor.put_task([np.full(3, k)]) for k in range(7)]
        gated.may_go_on.release(4)
        assert [future.result(WAIT_SECS) for future in futures] == [[3.0], *([3.0 * k] for k in range(7))]
    assert gated.sizes == [1, 3, 3, 1]


def test_one_that_does_not_fit_does_not_spoil_its_batch(towers):
    gated = Gated(towers[0])
    with MultiThreadAsyncPredictor([gated], batch_size=10) as predictor:
        first = predictor.put_task([np.ones(3)])
        assert gated.entered.acquire(timeout=WAIT_SECS)
        # The third one cannot be stacked, and once it is out the second one turns the batch into text.
        points = [[np.ones(3)], [["a", "b", "c"]], [np.ones(4)], [np.ones(3), 1], [np.zeros(3)]]
        futures = [predictor.put_task(point) for point in points]
        gated.may_go_on.release(20)
        errors = [future.exception(WAIT_SECS) for future in futures]
    assert first.result() == [3.0]
    assert [type(error) for error in errors] == [type(None), DataPointError, DataPointError, DataPointError, type(None)]
    assert "shape (1, 4), expected (None, 3)" in str(errors[2])
    assert "got 2 inputs: expected 1 (image)" in str(errors[3])
    assert (futures[0].result(), futures[4].result()) == ([3.0], [0.0])


def test_any_other_error_reaches_all_futures_and_the_thread_goes_on(towers):
    gated = Gated(towers[0], fail_with=ZeroDivisionError("in the model"))
    with MultiThreadAsyncPredictor([gated], batch_size=2) as predictor:
        gated.may_go_on.release(20)
        futures = [predictor.put_task([np.ones(3)]) for _ in range(3)]
        assert {str(future.exception(WAIT_SECS)) for future in futures} == {"in the model"}
        gated.fail_with = None
        assert predictor.put_task([np.ones(3)]).result(WAIT_SECS) == [3.0]


def test_stop_finishes_what_runs_and_cancels_what_waits(towers):
    gated = Gated(towers[0])
    predictor = MultiThreadAsyncPredictor([gated], batch_size=1)
    predictor.start()
    running, cancelled, waiting = (predictor.put_task([np.ones(3)]) for _ in range(3))
    assert gated.entered.acquire(timeout=WAIT_SECS)
    assert not running.cancel()
    assert cancelled.cancel()
    stopper = threading.Thread(target=predictor.stop)
    stopper.start()
    # Until it is let go on, the thread cannot have looked at what waits.
    while predictor._state != "stopped" or not predictor._threads[0].stopped():
        stopper.join(0.01)
    gated.may_go_on.release(5)
    stopper.join(WAIT_SECS)
    assert not stopper.is_alive()
    assert running.result(WAIT_SECS) == [3.0]
    for future in (cancelled, waiting):
        with pytest.raises(CancelledError):
            future.result(WAIT_SECS)
    with pytest.raises(ConfigError, match=r"between start\(\) and stop\(\), and it is stopped"):
        predictor.put_task([np.ones(3)])
    with pytest.raises(ConfigError, match="cannot start again, it is stopped"):
        predictor.start()
    predictor.stop()


def test_cancelled_data_points_are_left_out_of_the_batch(towers):
    gated = Gated(towers[0])
    with MultiThreadAsyncPredictor([gated], batch_size=3) as predictor:
        first = predictor.put_task([np.ones(3)])
        assert gated.entered.acquire(timeout=WAIT_SECS)
        futures = [predictor.put_task([np.ones(3)]) for _ in range(5)]
        assert all(future.cancel() for future in futures[:4])
        gated.may_go_on.release(5)
        assert first.result(WAIT_SECS) == futures[4].result(WAIT_SECS) == [3.0]
    assert gated.sizes == [1, 1]


def test_the_default_session_of_start_is_used(towers):
    predictor = MultiThreadAsyncPredictor([OnlinePredictor(towers[0].input_tensors, towers[0].output_tensors)])
    with towers[0].sess.as_default():
        predictor.start()
    try:
        assert predictor.put_task([np.ones(3)]).result(WAIT_SECS) == [3.0]
    finally:
        predictor.stop()


def test_an_output_without_rows_is_an_error(towers):
    image = towers[0].input_tensors[0]
    with image.graph.as_default():
        total = tf.reduce_sum(image)
    predictor = MultiThreadAsyncPredictor([OnlinePredictor([image], [total], sess=towers[0].sess)])
    predictor.start()
    try:
        with pytest.raises(ConfigError, match=r"for a batch of 1, Sum.* is of shape \(\)"):
            predictor.put_task([np.ones(3)]).result(WAIT_SECS)
    finally:
        predictor.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"predictors": []}, "predictors with 0 entries: expected at least 1"),
        ({"predictors": [3]}, r"predictors\[0\]=3: expected an OnlinePredictor"),
        ({"batch_size": 0}, "batch_size=0: expected an integer of at least 1"),
        ({"batch_size": True}, "batch_size=True: expected an integer"),
    ],
)
def test_what_cannot_work_is_refused(towers, options, message):
    with pytest.raises(ConfigError, match=message):
        MultiThreadAsyncPredictor(**{"predictors": towers, **options})
    with pytest.raises(ConfigError, match=r"between start\(\) and stop\(\), and it is new"):
        MultiThreadAsyncPredictor(towers).put_task([np.ones(3)])
    echoing = OnlinePredictor(towers[0].input_tensors, towers[0].output_tensors, return_input=True)
    with pytest.raises(ConfigError, match="return_input=True: expected False"):
        MultiThreadAsyncPredictor([echoing])
