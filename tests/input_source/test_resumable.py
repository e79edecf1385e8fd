"""Every source on a dataflow tells what finished steps have used, and another one goes on right after that."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import SIGNATURE, running
from tpack.dataflow import BatchData, DataFlow, DataFromList, LocallyShuffleData, MapData
from tpack.dataflow.iterator_state import StatelessError
from tpack.errors import InputError
from tpack.input_source import BatchQueueInput, DummyConstantInput, FeedInput, PlaceholderInput, QueueInput
from tpack.input_source.dataset import TFDatasetInput
from tpack.input_source.proxy import remap_input_source
from tpack.input_source.staging import StagingInput
from tpack.input_source.tensors import TensorInput
from tpack.utils import serialize
from tpack.utils.rng import fix_rng_seed

BATCHES = (tf.TensorSpec([None, 1, 2], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label"))
SOURCES = {
    "feed": FeedInput,
    "queue": QueueInput,
    "short queue": lambda ds: QueueInput(ds, tf.FIFOQueue(1, [tf.float32, tf.int32])),
    "dataset": TFDatasetInput,
    "staged queue": lambda ds: StagingInput(QueueInput(ds)),
    "staged dataset": lambda ds: StagingInput(TFDatasetInput(ds), nr_stage=3),
    "twice staged queue": lambda ds: StagingInput(StagingInput(QueueInput(ds), nr_stage=2)),
    "remapped queue": lambda ds: remap_input_source(QueueInput(ds), ["image", "label"]),
}


@pytest.fixture(autouse=True)
def no_seed():
    yield
    fix_rng_seed(None)


def shuffled(size=11):
    """Return a flow whose position has several parts and random numbers."""
    points = [[np.full([1, 2], k, np.float32), k] for k in range(size)]
    return MapData(LocallyShuffleData(DataFromList(points), 5), list)


def run_labels(make, num_steps, signature=SIGNATURE, num_towers=2, state=None):
    """Make a source in a fresh graph and go on at a state; return the labels that steps used, and the new state."""
    with tf.Graph().as_default():
        source = make()
        if state is not None:
            source.load_data_state(serialize.loads(state))
        return _run(source, num_steps, signature, num_towers)


def _run(source, num_steps, signature, num_towers):
    with running(source, signature, num_towers=num_towers) as run:
        labels = [np.atleast_1d(tower[1]).tolist() for _ in range(num_steps) for tower in run.step()]
        return sum(labels, []), serialize.dumps(source.data_state())


@pytest.mark.parametrize("num_towers", [1, 3])
@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_a_run_in_three_parts_sees_what_a_whole_one_sees(make, num_towers):
    fix_rng_seed(3)
    whole, _ = run_labels(lambda: make(shuffled()), 20, num_towers=num_towers)
    fix_rng_seed(3)
    parts, state = [], None
    for num_steps in (3, 0, 10, 7):
        labels, state = run_labels(lambda: make(shuffled()), num_steps, num_towers=num_towers, state=state)
        parts += labels
        fix_rng_seed(None)
    assert parts == whole
    assert len(set(whole)) > 1


@pytest.mark.parametrize("wrap", [lambda source: source, StagingInput], ids=["plain", "staged"])
def test_batches_that_towers_take_are_counted_in_data_points(wrap):
    fix_rng_seed(5)
    whole, _ = run_labels(lambda: wrap(BatchQueueInput(shuffled(), 4)), 8, BATCHES)
    fix_rng_seed(5)
    first, state = run_labels(lambda: wrap(BatchQueueInput(shuffled(), 4)), 5, BATCHES)
    fix_rng_seed(None)
    second, _ = run_labels(lambda: wrap(BatchQueueInput(shuffled(), 4)), 3, BATCHES, state=state)
    assert first + second == whole


def test_a_position_goes_from_one_kind_of_source_and_number_of_towers_to_another():
    fix_rng_seed(6)
    whole, _ = run_labels(lambda: FeedInput(shuffled()), 12, num_towers=1)
    fix_rng_seed(6)
    first, state = run_labels(lambda: QueueInput(shuffled()), 3, num_towers=2)
    fix_rng_seed(None)
    second, _ = run_labels(lambda: FeedInput(shuffled()), 2, num_towers=3, state=state)
    assert first + second == whole


def test_runs_that_take_no_data_and_steps_that_take_it_twice_are_counted_right(graph):
    ds = BatchData(DataFromList([[np.zeros(2, np.float32), np.int32(k)] for k in range(40)], shuffle=False), 1)
    signature = (tf.TensorSpec([None, 2], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label"))
    source = QueueInput(ds)
    nothing = tf.no_op()
    with running(source, signature, num_towers=2) as run:
        run.step()
        run.trainer.hooked_sess.run(nothing)
        run.trainer.sess.run(run.towers[0])
        run.step()
        state = serialize.dumps(source.data_state())
    labels, _ = run_labels(lambda: QueueInput(ds), 1, signature, state=state)
    assert labels == [5, 6]


def test_a_source_that_was_begun_again_counts_from_there(graph):
    source = QueueInput(shuffled())
    with running(source, num_towers=2) as run:
        run.labels(4)
        source.reset_state()
        run.labels(1)
        state = source.data_state()
        following = run.labels(3)
    again, _ = run_labels(lambda: QueueInput(shuffled()), 3, state=serialize.dumps(state))
    assert again == following


def test_before_the_first_step_the_position_is_where_the_data_begin():
    ds = DataFromList([[np.zeros([1, 2]), 0]])
    assert FeedInput(ds).data_state() is None
    _, state = run_labels(lambda: FeedInput(ds), 3)
    source = FeedInput(ds)
    source.load_data_state(serialize.loads(state))
    assert serialize.dumps(source.data_state()) == state


@pytest.mark.parametrize("make", [FeedInput, QueueInput, TFDatasetInput])
def test_a_dataflow_of_another_structure_is_said_before_the_first_step_is_made(make):
    _, state = run_labels(lambda: make(shuffled()), 1)
    other = make(DataFromList([[np.zeros([1, 2]), 0]]))
    message = (
        r"DataFromList cannot go on where the data of the earlier run stopped: DataFromList got the state of a Map"
    )
    with pytest.raises(InputError, match=message + r".*resume_data=False") as caught:
        run_labels(lambda: other, 1, state=state)
    assert isinstance(caught.value.__cause__, InputError)


def test_data_that_became_less_are_said():
    _, state = run_labels(lambda: FeedInput(DataFromList([[np.zeros([1, 2]), k] for k in range(9)])), 1)
    with pytest.raises(InputError, match="the data has changed"):
        run_labels(lambda: FeedInput(DataFromList([[np.zeros([1, 2]), 0]])), 1, state=state)


def test_a_flow_without_positions_trains_and_says_that_it_has_none(graph):
    class Plain(DataFlow):
        def __iter__(self):
            yield [np.zeros([1, 2]), 0]

    source = QueueInput(Plain())
    with running(source) as run:
        run.step()
        with pytest.raises(StatelessError, match="Plain cannot tell its position"):
            source.data_state()


def test_a_queue_that_shuffles_does_not_know_what_was_used(graph):
    source = QueueInput(shuffled(), tf.RandomShuffleQueue(8, 2, [tf.float32, tf.int32]))
    with running(source) as run:
        run.step()
        with pytest.raises(StatelessError, match="its RandomShuffleQueue changes their order"):
            source.data_state()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (PlaceholderInput(), "the data of PlaceholderInput have no position to go to"),
        (DummyConstantInput([]), "the data of DummyConstantInput have no position to go to"),
        (TensorInput(list), "the data of TensorInput have no position to go to"),
        (TFDatasetInput(list), r"TFDatasetInput of a tf\.data\.Dataset has no position to go to"),
    ],
)
def test_data_that_are_no_dataflow_have_no_position(source, message):
    assert source.data_state() is None
    with pytest.raises(StatelessError, match=message):
        source.load_data_state({})


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, r"Position got None: expected a state that state_dict\(\) returned"),
        ({}, r"Position got \{\}: expected a state that state_dict\(\) returned"),
        ({"flow": "Position"}, r"Position got a state with the parts \[\]: expected \['skipped', 'state'\]"),
        ({"flow": "Other", "state": {}, "skipped": 0}, "Position got the state of a Other"),
    ],
)
def test_something_else_than_a_state_is_an_error(state, message):
    with pytest.raises(InputError, match=message):
        QueueInput(shuffled()).load_data_state(state)


def test_a_state_for_a_source_that_was_set_up_is_an_error(graph):
    source = QueueInput(shuffled())
    source.setup(SIGNATURE)
    with pytest.raises(InputError, match="was set up before: load the state of its data first"):
        source.load_data_state({"flow": "Position", "state": {}, "skipped": 0})
