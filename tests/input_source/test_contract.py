"""What every input source that has data must do, whichever it is: all members in one suite."""

import threading

import numpy as np
import psutil
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import SIGNATURE, running
from tpack.dataflow import DataFromGenerator, DataFromList, MapData
from tpack.dataflow.parallel import MultiProcessMapData, MultiProcessRunner
from tpack.errors import ConfigError, InputError
from tpack.input_source import (
    BatchQueueInput,
    DummyConstantInput,
    FeedInput,
    PlaceholderInput,
    QueueInput,
    StagingInput,
    TensorInput,
    TFDatasetInput,
    remap_input_source,
)
from tpack.step.hooked_session import HookedSession

NUM_POINTS = 7


def point(index):
    return [np.full([3, 2], index, np.float32), index]


def points():
    return DataFromList([point(index) for index in range(NUM_POINTS)], shuffle=False)


def dataset():
    images = np.stack([point(index)[0] for index in range(NUM_POINTS)])
    labels = np.arange(NUM_POINTS, dtype=np.int32)
    return tf.data.Dataset.from_tensor_slices((images, labels)).repeat()


def counting_tensors():
    """Make tensors that count the data points over all towers, as a source without a dataflow."""
    with tf.variable_scope("count", reuse=tf.AUTO_REUSE, use_resource=True):
        count = tf.get_variable("next", [], tf.int32, tf.zeros_initializer(), trainable=False)
    index = tf.assign_add(count, 1) - 1
    return [tf.cast(tf.fill([3, 2], index % NUM_POINTS), tf.float32), index % NUM_POINTS]


STREAMS = {
    "feed": lambda: FeedInput(points()),
    "queue": lambda: QueueInput(points()),
    "dataset": lambda: TFDatasetInput(dataset),
    "dataflow as dataset": lambda: TFDatasetInput(points()),
    "staged queue": lambda: StagingInput(QueueInput(points())),
    "twice staged dataset": lambda: StagingInput(StagingInput(TFDatasetInput(dataset), nr_stage=2)),
    "remapped queue": lambda: remap_input_source(QueueInput(points()), ["image", "label"]),
}
OTHERS = {
    "placeholder": PlaceholderInput,
    "constant": lambda: DummyConstantInput([(3, 2), ()]),
    "tensor": lambda: TensorInput(counting_tensors, size=NUM_POINTS),
}


@pytest.fixture(params=STREAMS)
def make_stream(request):
    return STREAMS[request.param]


@pytest.fixture(params=[*STREAMS, *OTHERS])
def make_source(request):
    return {**STREAMS, **OTHERS}[request.param]


@pytest.mark.parametrize("num_towers", [1, 2, 3])
def test_towers_take_successive_data_points(graph, make_stream, num_towers):
    num_steps = 2 * NUM_POINTS
    with running(make_stream(), num_towers=num_towers) as run:
        values = [tower for _ in range(num_steps) for tower in run.step()]
    assert [int(label) for _, label in values] == [k % NUM_POINTS for k in range(num_steps * num_towers)]
    for image, label in values:
        np.testing.assert_array_equal(image, point(label)[0])
        assert (image.dtype, np.asarray(label).dtype) == (np.float32, np.int32)


def test_a_step_may_run_in_the_callers_thread(graph, make_stream):
    with running(make_stream(), num_towers=2) as run:
        run.trainer.hooked_sess = HookedSession(run.trainer.sess, run.callbacks, executor="caller")
        assert run.labels(2 * NUM_POINTS) == [k % NUM_POINTS for k in range(4 * NUM_POINTS)]


def test_reset_state_goes_back_to_the_first_data_point(graph, make_stream):
    with running(make_stream(), num_towers=2) as run:
        for num_steps in (1, 3, 0, 5):
            assert run.labels(num_steps) == [k % NUM_POINTS for k in range(2 * num_steps)]
            run.source.reset_state()


def test_tensors_fit_the_signature(graph, make_source):
    source = make_source()
    source.setup(SIGNATURE)
    image, label = source.get_input_tensors()
    assert (image.dtype, image.shape.rank, int(image.shape[1])) == (tf.float32, 2, 2)
    assert (label.dtype, label.shape.rank) == (tf.int32, 0)


def test_setup_gives_the_callbacks_once(graph, make_source):
    source = make_source()
    assert not source.setup_done()
    callbacks = source.setup(SIGNATURE)
    assert source.setup_done()
    assert all(one is other for one, other in zip(callbacks, source.get_callbacks(), strict=True))
    assert not any(callback.chief_only for callback in callbacks)
    with pytest.raises(InputError, match="was set up before"):
        source.setup(SIGNATURE)


def test_use_before_setup_is_an_error(graph, make_source):
    source = make_source()
    for use in (source.get_input_tensors, source.get_callbacks, source.reset_state):
        with pytest.raises(InputError, match="is not set up"):
            use()


def test_a_malformed_signature_is_an_error(graph, make_source):
    source = make_source()
    with pytest.raises(ConfigError, match="TensorSpec"):
        source.setup([tf.float32])
    assert not source.setup_done()


@pytest.mark.parametrize("num_steps", [0, 1])
def test_an_early_end_leaves_no_thread(graph, make_stream, num_steps):
    before = set(threading.enumerate())
    with running(make_stream()) as run:
        run.labels(num_steps)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("wrap", [FeedInput, QueueInput, lambda ds: StagingInput(QueueInput(ds))])
def test_size_is_that_of_the_dataflow(wrap):
    assert wrap(points()).size() == NUM_POINTS
    with pytest.raises(NotImplementedError):
        wrap(DataFromGenerator(lambda: iter([]))).size()


@pytest.mark.parametrize("make", [PlaceholderInput, lambda: TFDatasetInput(dataset), lambda: DummyConstantInput([])])
def test_size_is_not_known(make):
    with pytest.raises(NotImplementedError, match="size of .* is not known"):
        make().size()


def broken(after):
    def generate():
        yield from (point(index) for index in range(after))
        raise KeyError("the disk is gone")

    return DataFromGenerator(generate)


@pytest.mark.parametrize(
    "wrap",
    [FeedInput, QueueInput, TFDatasetInput, lambda ds: StagingInput(QueueInput(ds)), lambda ds: BatchQueueInput(ds, 1)],
)
@pytest.mark.parametrize("after", [0, 3])
def test_a_dataflow_that_raises_ends_the_step_with_its_own_error(graph, wrap, after):
    signature = SIGNATURE
    if "BatchQueue" in str(wrap(points())):
        signature = [tf.TensorSpec([None, 3, 2], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]
    with (
        pytest.raises(InputError, match="raised KeyError at data point") as caught,
        running(wrap(broken(after)), signature) as run,
    ):
        while True:
            run.step()
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.__cause__.__traceback__.tb_next is not None


@pytest.mark.parametrize("wrap", [FeedInput, QueueInput, TFDatasetInput, lambda ds: StagingInput(QueueInput(ds))])
def test_labels_that_come_as_floats_are_converted(graph, wrap, log_dir):
    floats = DataFromList([[point(k)[0].astype(np.int16), np.float32(k)] for k in range(NUM_POINTS)], shuffle=False)
    with running(wrap(floats)) as run:
        values = [tower for _ in range(NUM_POINTS) for tower in run.step()]
    assert [(int(label), label.dtype, image.dtype) for image, label in values] == [
        (k, np.int32, np.float32) for k in range(NUM_POINTS)
    ]
    assert (log_dir / "log.log").read_text().count("component 1 ('label') has dtype float32") == 1


@pytest.mark.parametrize("wrap", [FeedInput, QueueInput, TFDatasetInput, lambda ds: StagingInput(QueueInput(ds))])
def test_a_batch_without_rows_ends_the_step(graph, wrap):
    signature = [tf.TensorSpec([None, 2], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]
    empty = DataFromList([[np.zeros([0, 2]), np.zeros([0], np.int32)]])
    with pytest.raises(InputError, match="data point 0 of .* has no rows"), running(wrap(empty), signature) as run:
        run.step()


@pytest.mark.parametrize("wrap", [FeedInput, QueueInput, TFDatasetInput, lambda ds: StagingInput(QueueInput(ds))])
def test_a_bad_data_point_ends_the_step_with_an_error_that_names_it(graph, wrap):
    bad = DataFromList([point(0), [np.zeros([3, 2]), 1.5]], shuffle=False)
    message = r"data point 1 of .*DataFromList: component 1 \('label'\) has dtype float64"
    with pytest.raises(InputError, match=message), running(wrap(bad)) as run:
        while True:
            run.step()


@pytest.mark.parametrize("wrap", [FeedInput, QueueInput, TFDatasetInput, lambda ds: StagingInput(QueueInput(ds))])
def test_a_dataflow_without_data_ends_the_step(graph, wrap):
    with pytest.raises(InputError, match="yielded nothing"), running(wrap(DataFromList([], shuffle=False))) as run:
        run.step()


WITH_FLOW = {
    "feed": FeedInput,
    "queue": QueueInput,
    "dataset": TFDatasetInput,
    "staged queue": lambda ds: StagingInput(QueueInput(ds)),
}
WITH_WORKERS = {
    "runner": lambda: MapData(MultiProcessRunner(points(), 2, 1), list),
    "map": lambda: MultiProcessMapData(points(), 1, list, buffer_size=3, strict=True),
}


def new_children(before):
    return [child for child in psutil.Process().children() if child not in before]


@pytest.mark.parametrize("wrap", WITH_FLOW.values(), ids=WITH_FLOW)
@pytest.mark.parametrize("make_flow", WITH_WORKERS.values(), ids=WITH_WORKERS)
def test_workers_of_a_dataflow_end_with_training_and_start_anew_if_it_is_used_again(graph, make_flow, wrap):
    ds, before = make_flow(), psutil.Process().children()
    with running(wrap(ds)) as run:
        run.step()
        assert new_children(before)
    assert not new_children(before)
    ds.reset_state()
    assert new_children(before)
    assert len([label for _, label in ds]) == NUM_POINTS
    for flow in (ds, ds.ds):
        if hasattr(flow, "close"):
            flow.close()
    assert not new_children(before)
