"""How workers end together, with peers in threads and a session that notes what is said."""

import pytest

from tests.helpers.fake_peers import run_workers
from tpack.errors import Interrupted, StopTraining
from tpack.multi_worker.coordinated_stop import CoordinatedStop, StopFlag


class Said(StopFlag):
    """Notes what is said."""

    def __init__(self):
        super().__init__()
        self.total = "a tensor"
        self.words = []

    def set(self, session, value):
        self.words.append(value)


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (StopTraining("enough"), StopFlag.STOP),
        (StopTraining("no time", to_be_continued=True), StopFlag.SIGNAL),
        (Interrupted("SIGTERM"), StopFlag.SIGNAL),
    ],
    ids=["stop", "time", "signal"],
)
def test_who_wants_to_end_says_so_once_and_makes_one_more_step(request_, word):
    signal = Said()
    ending = CoordinatedStop(None, signal)
    ending.after_step(None, None)
    ending.after_step(None, request_)
    ending.after_step(None, request_)
    assert signal.words == [word]
    ending.total = float(word)
    with pytest.raises(type(request_), match=str(request_)):
        ending.after_step(None, None)


@pytest.mark.parametrize(
    ("told", "kind", "words"),
    [(1.0, StopTraining, "another worker has asked for it"), (4097.0, Interrupted, "got a signal to end")],
)
def test_who_hears_of_it_ends_as_the_other_does(told, kind, words):
    ending = CoordinatedStop(None, Said())
    ending.total = told
    with pytest.raises(kind, match=words):
        ending.after_step(None, None)


def test_those_who_wait_before_an_epoch_end_with_who_ended_after_the_one_before():
    def end(peers):
        ending = CoordinatedStop(peers, Said())
        if peers.rank == 1:
            ending.end_after_epoch(3, StopTraining("enough"))
            return "told"
        try:
            ending.before_epoch(3)
        except StopTraining as stop:
            # It comes from all, and nobody has to be told once more.
            ending.end_after_epoch(3, stop)
            return str(stop)

    assert run_workers(3, end) == ["worker 1: enough", "told", "worker 1: enough"]


def test_all_go_on_with_an_epoch_where_nobody_wants_to_end():
    assert run_workers(2, lambda peers: CoordinatedStop(peers, Said()).before_epoch(3)) == [None, None]
