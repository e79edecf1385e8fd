"""A checkpoint of several workers: the chief writes it, with the position that each has in its data."""

from types import SimpleNamespace

import tensorflow.compat.v1 as tf

from tests.callbacks.test_saver import checkpoints
from tests.helpers.fake_peers import run_workers
from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks import saver
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.dataflow.iterator_state import StatelessError
from tpack.errors import ClusterError
from tpack.tfutils.train_state import read_data_state, states_of_workers


def train(peers, *, position=None, steps=4, **training):
    with tf.Graph().as_default():
        trainer = FakeTrainer()
        trainer.peers, trainer.is_chief = peers, peers.rank == 0

        def tell():
            return {"rank": peers.rank, "step": trainer.global_step}

        trainer.input_source = SimpleNamespace(data_state=tell if position is None else position)
        saving = PeriodicTrigger(ModelSaver(), every_k_steps=2)
        trainer.train([saving], steps_per_epoch=steps, epochs=(1, 1), **training)
        return peers.topics


def positions(directory, step):
    state = read_data_state(str(directory / f"model-{step}"), step)
    return None if state is None else states_of_workers(state)


def test_the_chief_saves_the_positions_of_all(log_dir):
    topics = run_workers(3, train)
    assert checkpoints(log_dir) == [2, 4]
    for step in (2, 4):
        assert positions(log_dir, step) == [{"rank": rank, "step": step} for rank in range(3)]
    assert topics == [["the position in the data"] * 2] * 3


def test_all_that_are_interrupted_at_one_step_save_it(log_dir):
    run_workers(2, lambda peers: train(peers, interrupt_at=3))
    assert checkpoints(log_dir) == [2, 3]
    assert positions(log_dir, 3) == [{"rank": rank, "step": 3} for rank in range(2)]


def test_workers_interrupted_at_different_steps_have_no_common_position(log_dir):
    with captured_log() as lines:
        run_workers(2, lambda peers: late(peers) if peers.rank else train(peers, interrupt_at=3))
    assert checkpoints(log_dir) == [2, 3]
    assert positions(log_dir, 3) is None
    assert any("the workers are at different steps: 3, 5" in line for line in lines)


def test_workers_at_their_own_pace_keep_their_positions(log_dir):
    run_workers(2, lambda peers: late(peers) if peers.rank else train(peers))
    assert positions(log_dir, 4) == [{"rank": 0, "step": 4}, {"rank": 1}]


def late(peers):
    """Take part in the first save, and come one step later to the second."""
    for step in (2, 5):
        peers.gather("the position in the data", [step, {"rank": peers.rank}, ""])


def test_a_worker_that_does_not_come_to_the_last_save_costs_the_position_only(log_dir):
    class Lost:
        rank, size, topics = 0, 2, ()

        def gather(self, topic, value, *, timeout_secs=None):
            if timeout_secs > 3600:
                return [value, value]
            raise ClusterError("worker 1 has ended")

    with captured_log() as lines:
        train(Lost(), interrupt_at=3)
    assert checkpoints(log_dir) == [2, 3]
    assert positions(log_dir, 3) is None
    assert any("not all workers could tell theirs: worker 1 has ended" in line for line in lines)


def test_a_position_that_is_too_large_to_be_sent_is_left_out(log_dir, monkeypatch):
    monkeypatch.setattr(saver, "_MOST_BYTES", 1 << 20)

    def tell():
        return {"points": bytes(2 << 20)}

    with captured_log() as lines:
        run_workers(2, lambda peers: train(peers, position=tell if peers.rank else None))
    assert positions(log_dir, 4) is None
    assert any("worker 1: it takes 2 MiB, more than 1" in line for line in lines)


def test_one_worker_without_a_position_is_named_once(log_dir):
    def tell():
        raise StatelessError("its order is up to chance")

    with captured_log() as lines:
        run_workers(2, lambda peers: train(peers, position=tell if peers.rank else None))
    assert checkpoints(log_dir) == [2, 4]
    assert positions(log_dir, 4) is None
    said = [line for line in lines if "do not hold a position" in line]
    assert len(said) == 2, "each worker says it once"
    assert all(line.endswith("worker 1: its order is up to chance") for line in said)
