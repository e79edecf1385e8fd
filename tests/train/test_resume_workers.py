"""What one of several workers reads, and where it goes on, before anything is built."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.fake_peers import run_workers
from tests.helpers.log_lines import captured_log
from tests.helpers.shared_data import Labels
from tests.helpers.toy_training import line_input
from tpack.dataflow import BatchData, DataFromGenerator, DataFromList, LocallyShuffleData, ShardData
from tpack.dataflow.checkpoint import Position
from tpack.dataflow.iterator_state import make_state
from tpack.errors import CheckpointError, ConfigError, InputError
from tpack.input_source import FeedInput, QueueInput, StagingInput
from tpack.tfutils.train_state import TrainState, states_of_workers, workers_state, write_data_state, write_train_state
from tpack.train.config import TrainConfig
from tpack.train.resume import AutoResumeTrainConfig, resume_data, share_data


def points(count=24):
    return DataFromList([[np.int64(k)] for k in range(count)], shuffle=False)


def worker(rank, size):
    return SimpleNamespace(rank=rank, size=size)


def config(ds, states=(), **kwargs):
    made = TrainConfig(model=Labels(), data=QueueInput(ds) if ds is not None else line_input(), **kwargs)
    made.data_states = list(states)
    return made


def state_after(ds, count, rank, size):
    """Return the state that a worker's input gives after some points."""
    ds.take_place(rank, size) if isinstance(ds, ShardData) else None
    ds.reset_state()
    taken = iter(ds)
    for _ in range(count):
        next(taken)
    repeated = {"flow": "RepeatedData", "ds": ds.state_dict(), "finished": 0, "has_points": count > 0}
    return make_state(Position({}), state=repeated, skipped=0)


def test_a_share_takes_the_place_of_the_trainer():
    for wrap in (lambda source: source, StagingInput):
        shard = ShardData(points())
        made = TrainConfig(model=Labels(), data=wrap(QueueInput(BatchData(shard, 2))))
        assert made.steps_per_epoch == 12
        share_data(made, worker(2, 3))
        made.fit_to_towers(1)
        assert (shard.rank, shard.size, made.steps_per_epoch) == (2, 3, 4)
    alone = ShardData(points())
    for peers in (None, worker(0, 1)):
        share_data(config(alone), peers)
    assert (alone.rank, alone.size) == (0, 1)


def test_data_that_are_not_shared_are_told_by_the_chief_once():
    with captured_log() as lines:
        share_data(config(points()), worker(0, 2))
        share_data(config(points()), worker(1, 2))
        share_data(config(ShardData(points())), worker(0, 2))
        share_data(config(points()), None)
    assert len([line for line in lines if "Each of the 2 workers reads all data" in line]) == 1


def shared(arrays_of, size=2, batch_size=6, **kwargs):
    """Return the points that each worker takes in one pass over the arrays that it is given, and what the log says."""

    def taken(one):
        made = TrainConfig(model=Labels(), dataflow=arrays_of(one.rank), batch_size=batch_size, **kwargs)
        share_data(made, one)
        made.fit_to_towers(1)
        flow = made.data.dataflow
        flow.reset_state()
        batches = [np.concatenate([np.ravel(part) for part in batch]) for batch in flow]
        return made.steps_per_epoch, batches

    with captured_log() as lines:
        return run_workers(size, taken), lines


def test_arrays_that_all_workers_were_given_are_dealt_out_to_them():
    rows = np.arange(24).reshape(24, 1)
    by_worker, lines = shared(lambda rank: (rows.copy(),))
    assert [steps for steps, _ in by_worker] == [4, 4]
    assert [[len(batch) for batch in batches] for _, batches in by_worker] == [[3] * 4] * 2
    taken = np.concatenate([np.concatenate(batches) for _, batches in by_worker])
    assert sorted(taken) == list(range(24))
    assert list(taken) != list(range(24))
    assert len([line for line in lines if "The data are the same in all 2 workers" in line]) == 1

    again, _ = shared(lambda rank: (rows,))
    other, _ = shared(lambda rank: (rows,), seed=7)
    assert np.array_equal(again[0][1], by_worker[0][1])
    assert not np.array_equal(other[0][1], by_worker[0][1])


@pytest.mark.parametrize(
    "arrays_of",
    [
        lambda rank: (np.arange(24).reshape(24, 1) + 24 * rank,),
        lambda rank: (np.arange(24).reshape(24, 1).astype(["int32", "int64"][rank]),),
        lambda rank: (np.arange(24 + 2 * rank).reshape(24 + 2 * rank, 1),),
        lambda rank: np.arange(24).reshape(24, 1) if rank else [[np.int64(k)] for k in range(24)],
    ],
    ids=["values", "type", "length", "kind"],
)
def test_arrays_that_differ_were_dealt_out_before(arrays_of):
    by_worker, lines = shared(arrays_of)
    assert all(sum(map(len, batches)) == 24 for _, batches in by_worker)
    assert len([line for line in lines if "Each of the 2 workers reads all data" in line]) == 1


def numbers():
    for number in range(24):
        yield [np.array([number])]


@pytest.mark.parametrize("batch_size", [6, None])
def test_lists_are_dealt_out_too(batch_size):
    by_worker, lines = shared(lambda rank: [[np.array([k])] for k in range(24)], batch_size=batch_size)
    assert [steps for steps, _ in by_worker] == ([4, 4] if batch_size else [12, 12])
    check_dealt_out(by_worker, lines)


@pytest.mark.parametrize("batch_size", [6, None])
def test_generator_functions_are_dealt_out_too(batch_size):
    check_dealt_out(*shared(lambda rank: numbers, batch_size=batch_size, steps_per_epoch=5))


def check_dealt_out(by_worker, lines):
    taken = np.concatenate([np.concatenate(batches) for _, batches in by_worker])
    assert sorted(taken) == list(range(24))
    assert len([line for line in lines if "The data are the same in all 2 workers" in line]) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda rank: [[np.array([k + rank])] for k in range(24)],
        lambda rank: lambda: ([np.array([k + rank])] for k in range(24)),
    ],
    ids=["list", "generator"],
)
def test_lists_that_differ_were_dealt_out_before(make):
    def of(rank):
        data = make(rank)
        if isinstance(data, list):
            return data

        def points():
            yield from data()

        return points

    by_worker, lines = shared(of, steps_per_epoch=4)
    assert all(sum(map(len, batches)) == 24 for _, batches in by_worker)
    assert len([line for line in lines if "Each of the 2 workers reads all data" in line]) == 1


def test_points_that_cannot_be_compared_are_refused_with_what_to_write():
    with pytest.raises(ConfigError, match=r"use dataflow=BatchData\(ShardData\(DataFromList\(points\)\), size\)"):
        shared(lambda rank: [[np.array([k]), object()] for k in range(24)])


def test_a_flow_of_the_scripts_own_is_left_alone():
    by_worker, lines = shared(lambda rank: points())
    assert all(sum(map(len, batches)) == 24 for _, batches in by_worker)
    assert len([line for line in lines if "Each of the 2 workers reads all data" in line]) == 1


def test_arrays_that_one_process_had_read_begin_anew():
    def resumed(one):
        made = TrainConfig(model=Labels(), dataflow=(np.arange(24).reshape(24, 1),), batch_size=6)
        made.data_states = [{"flow": "BatchData"}]
        share_data(made, one)
        resume_data(made, one)
        return made.data_states

    with captured_log() as lines:
        assert run_workers(2, resumed) == [[], []]
    assert len([line for line in lines if "The data start from the beginning: one process read those" in line]) == 2


def test_shares_of_unlike_length_are_refused_in_training():
    with pytest.raises(ConfigError, match="keep. for 5 workers and 24 data points"):
        share_data(config(ShardData(points(), remainder="keep")), worker(0, 5))
    share_data(config(ShardData(points(), remainder="keep")), worker(0, 4))
    unknown = ShardData(DataFromGenerator(list), remainder="keep")
    with pytest.raises(ConfigError, match="and None data points"):
        share_data(config(unknown, steps_per_epoch=2), worker(0, 2))
    with pytest.raises(ConfigError, match="ShardData got rank=1 and size=2 in worker 0 of 2"):
        share_data(config(ShardData(points(), 1, 2)), worker(0, 2))


def position_of(made):
    return made.data.data_state()


def test_as_many_workers_go_on_from_their_own_positions_and_others_are_dealt_the_rest():
    states = [state_after(ShardData(points()), 5, rank, 2) for rank in range(2)]
    for rank in range(2):
        made = config(ShardData(points(), rank, 2), states)
        resume_data(made, worker(rank, 2))
        assert position_of(made) == states[rank]
    for size in (1, 3):
        ds = ShardData(points())
        ds.take_place(0, size)
        made = config(ds, states)
        with captured_log() as lines:
            resume_data(made, worker(0, size) if size > 1 else None)
        assert lines[-1] == f"The rest of the data of 2 workers is dealt out to {size}."
        inner = position_of(made)["state"]["ds"]
        assert (inner["size"], inner["ds"]["index"]) == (size, 10)
    fed = TrainConfig(model=Labels(), data=FeedInput(ShardData(points(), 0, 3), infinite=False))
    fed.data_states = [make_state(Position({}), state=state["state"]["ds"], skipped=0) for state in states]
    resume_data(fed, worker(0, 3))
    assert fed.data.data_state()["state"]["ds"]["index"] == 10


def test_one_process_or_none_leaves_the_data_alone():
    for states in ([], [state_after(points(), 3, 0, 1)]):
        made = config(points(), states)
        resume_data(made, None)
        assert position_of(made) is None


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: points(), "expected one ShardData in it, not 0"),
        (lambda: LocallyShuffleData(ShardData(points(), 0, 3), 4), "LocallyShuffleData holds back points"),
        (lambda: None, "the data of TensorInput cannot be dealt out anew"),
    ],
    ids=["no share", "buffer", "no dataflow"],
)
def test_data_that_cannot_be_dealt_out_begin_anew_and_say_why(make, reason):
    states = [state_after(ShardData(points()), 5, rank, 2) for rank in range(2)]
    made = config(make(), states, steps_per_epoch=3)
    with captured_log() as lines:
        resume_data(made, worker(0, 3))
    assert any("The data start from the beginning" in line and reason in line for line in lines)


def test_another_dataflow_is_an_error_that_says_what_to_do():
    states = [state_after(ShardData(points()), 5, rank, 2) for rank in range(2)]
    made = config(ShardData(points(30), 0, 3), states)
    with pytest.raises(
        InputError, match=r"those of the 2 workers .* over 24 data points and has 30.*resume_data=False"
    ):
        resume_data(made, worker(0, 3))
    with pytest.raises(InputError, match="was set up before"):
        used = config(ShardData(points(), 0, 3), states)
        with tf.Graph().as_default():
            used.data.setup(Labels().get_input_signature())
        resume_data(used, worker(0, 3))


def saved(log_dir, states, local_step):
    prefix = save_checkpoint(log_dir, {"w": np.float32(1), "global_step": np.int64(local_step)}, local_step)
    write_data_state(prefix, states, local_step)
    write_train_state(prefix, TrainState(1, local_step, local_step, steps_per_epoch=12))


@pytest.mark.parametrize(("size", "expected"), [(1, 10), (2, 5), (3, 3), (5, 2)])
def test_finished_steps_are_counted_in_those_of_the_workers_of_today(log_dir, size, expected):
    states = [state_after(ShardData(points()), 5, rank, 2) for rank in range(2)]
    saved(log_dir, workers_state(states), 5)
    shard = ShardData(points())
    made = AutoResumeTrainConfig(model=Labels(), dataflow=shard)
    share_data(made, worker(0, size) if size > 1 else None)
    made.fit_to_towers(1)
    assert (made.starting_epoch, made.starting_step) == (1, expected)
    assert made.start()["data_states"] == states
    other = config(ShardData(points()))
    other.begin_at(made.start())
    assert (other.starting_step, other.data_states) == (expected, states)
    given = AutoResumeTrainConfig(model=Labels(), dataflow=ShardData(points()), steps_per_epoch=12)
    share_data(given, worker(0, size) if size > 1 else None)
    given.fit_to_towers(1)
    assert given.starting_step == 5


@pytest.mark.parametrize(("towers", "batch_size", "expected"), [(1, 2, 5), (2, 2, 5), (1, 4, 2), (2, 8, 1), (1, 1, 10)])
def test_finished_steps_are_counted_in_those_of_the_batches_of_today(log_dir, towers, batch_size, expected):
    saved(log_dir, None, 5)
    made = AutoResumeTrainConfig(model=Labels(), dataflow=points(), batch_size=batch_size)
    with captured_log() as lines:
        made.fit_to_towers(towers)
    assert made.starting_step == expected
    told = f"An epoch had 12 steps and has {24 // batch_size} now, of which {expected} are finished."
    assert [told in line for line in lines] == [True] * (batch_size != 2)


def test_steps_of_an_older_version_are_as_many_as_they_were(log_dir):
    saved(log_dir, None, 5)
    write_train_state(f"{log_dir}/model-5", TrainState(1, 5, 5))
    made = AutoResumeTrainConfig(model=Labels(), dataflow=points(), batch_size=4)
    made.fit_to_towers(1)
    assert made.starting_step == 5


def test_positions_that_are_none_are_damaged(log_dir):
    saved(log_dir, {"workers": [3]}, 5)
    with pytest.raises(CheckpointError, match="got state=.*: expected the positions of workers"):
        AutoResumeTrainConfig(model=Labels(), dataflow=ShardData(points()))
    with pytest.raises(InputError, match="expected the positions of workers"):
        states_of_workers({"workers": []})
    assert states_of_workers({"flow": "Position"}) == [{"flow": "Position"}]


def test_only_the_chief_looks_for_checkpoints(log_dir, monkeypatch):
    saved(log_dir, workers_state([state_after(ShardData(points()), 5, rank, 2) for rank in range(2)]), 5)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    made = AutoResumeTrainConfig(model=Labels(), dataflow=ShardData(points()))
    assert (made.starting_step, made.data_states) == (0, [])
    monkeypatch.setenv("RANK", "0")
    made = AutoResumeTrainConfig(model=Labels(), dataflow=ShardData(points()))
    assert (made.starting_step, len(made.data_states)) == (5, 2)
