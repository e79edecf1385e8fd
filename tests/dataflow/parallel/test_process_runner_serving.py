"""What a worker does that runs a flow."""

import weakref

import numpy as np
import pytest

from tests.helpers.flows import COUNT, Broken, Counting
from tests.helpers.served import served
from tests.helpers.worker_functions import Images
from tpack.dataflow.batch import BatchData
from tpack.dataflow.checkpoint import Position
from tpack.dataflow.mapping import MapData
from tpack.dataflow.parallel.process_runner import _Command, serve_flow
from tpack.dataflow.parallel.slots import VIEW_BYTES, Record
from tpack.dataflow.sources import DataFromList

PASS = [(Record.PACK, [k, str(k)]) for k in range(COUNT)]


def simple(found):
    """Return pairs with one kind for all data points, and without what is in states and errors."""
    return [
        (
            Record.PACK if kind in (Record.POINT, Record.PACK) else kind,
            None if kind in (Record.STATE, Record.ERROR) else content,
        )
        for kind, content in found
    ]


def test_flow_is_reset_and_its_passes_follow_each_other():
    with served(serve_flow, Counting(), False, True) as owner:
        assert simple(owner.receive(2 * COUNT + 2)) == [*PASS, (Record.END, 0)] * 2


def test_worker_waits_after_a_pass_if_it_is_not_to_go_on():
    with served(serve_flow, Counting(), False, False) as owner:
        assert simple(owner.receive(COUNT + 1)) == [*PASS, (Record.END, 0)]
        owner.submit(_Command(4, None))
        assert simple(owner.receive(COUNT + 3)) == [(Record.BEGUN, 4), (Record.BEGUN, 4), *PASS, (Record.END, 0)]


def test_exception_is_sent_and_the_worker_waits():
    with served(serve_flow, Broken(2), False, True) as owner:
        found = owner.receive(3)
        assert simple(found) == [*PASS[:2], (Record.ERROR, None)]
        assert found[2][1].text == "OSError: the disk is gone"
        owner.submit(_Command(1, None))
        assert simple(owner.receive(COUNT + 3))[2:] == [*PASS, (Record.END, 0)]


def test_worker_that_waits_for_room_gives_up_its_pass():
    with served(serve_flow, Images(10**9, VIEW_BYTES - 1), False, True, capacity=2) as owner:
        owner.receive(5)
        owner.results.cancel(1)
        owner.jobs.send(Record.COMMAND, _Command(1, None))
        kind = Record.POINT
        while kind == Record.POINT:
            ((kind, content),) = owner.receive(1)
        assert (kind, content) == (Record.BEGUN, 1)
        found = owner.receive(3)
        assert [content if kind == Record.BEGUN else content[1] for kind, content in found] == [1, 0, 1]


def list_flow():
    return DataFromList([[k, str(k)] for k in range(COUNT)], shuffle=False)


def test_states_are_told_at_the_beginning_and_at_the_end_of_each_pass():
    with served(serve_flow, list_flow(), True, True) as owner:
        found = owner.receive(2 * COUNT + 5)
        one_pass = [*PASS, (Record.STATE, None), (Record.END, 0)]
        assert simple(found) == [(Record.STATE, None), *one_pass, *one_pass]
        assert found[0][1].position.state["flow"] == "DataFromList"


def test_flow_without_a_state_says_so():
    with served(serve_flow, Counting(), True, True) as owner:
        kind, state = owner.receive(1)[0]
        assert (kind, state.position) == (Record.STATE, None)
        assert "Counting" in state.reason


@pytest.mark.parametrize(("is_over", "first"), [(False, 4), (True, 0)])
def test_pass_can_begin_at_a_position(is_over, first):
    with served(serve_flow, list_flow(), True, False) as owner:
        found = owner.receive(COUNT + 3)
        owner.submit(_Command(1, Position(found[0][1].position.state, 4, is_over)))
        wanted = [(Record.BEGUN, 1)] * 2 + [(Record.STATE, None)] * is_over + PASS[first:]
        assert simple(owner.receive(len(wanted))) == wanted


def test_position_that_is_none_is_an_exception():
    with served(serve_flow, list_flow(), True, False) as owner:
        owner.receive(COUNT + 3)
        owner.submit(_Command(1, Position({"flow": "Other"})))
        (kind, number), (failed, error) = owner.receive(2)
        assert (kind, number, failed) == (Record.BEGUN, 1, Record.ERROR)
        assert "the state of a Other" in error.text


@pytest.mark.parametrize("size", [4, VIEW_BYTES], ids=["small", "large"])
def test_batches_are_made_where_they_are_read(size):
    with served(serve_flow, BatchData(Images(7, size), 3, remainder=True), True, True) as owner:
        for _ in range(3):
            found = [content for kind, content in owner.receive(3 + 2) if kind == Record.POINT]
            assert [batch[1].tolist() for batch in found] == [[0, 1, 2], [3, 4, 5], [6]]
            for images, numbers in found:
                np.testing.assert_array_equal(images, np.repeat(numbers[:, None], size, 1))
            # The state at the beginning comes once.
            owner.receive(0)


def test_batches_go_on_in_the_middle():
    ds = BatchData(DataFromList([[k] for k in range(8)], shuffle=False), 3, remainder=True)
    with served(serve_flow, ds, True, False) as owner:
        found = owner.receive(6)
        owner.submit(_Command(1, Position(found[0][1].position.state, 1)))
        batches = [content[0].tolist() for _, content in owner.receive(4)[2:]]
        assert batches == [[3, 4, 5], [6, 7]]


def test_batches_of_lists_stay_lists():
    with served(serve_flow, BatchData(Counting(), 3, use_list=True), False, True) as owner:
        assert owner.receive(1)[0][1] == [[0, 1, 2], ["0", "1", "2"]]


def test_batch_that_cannot_be_made_is_an_exception():
    ds = BatchData(DataFromList([[np.zeros(k)] for k in range(4)], shuffle=False), 2)
    with served(serve_flow, ds, False, True) as owner:
        kind, failure = owner.receive(1)[0]
        assert kind == Record.ERROR
        assert "like data point 0; or use use_list=True" in failure.text


def test_large_arrays_of_a_batch_are_not_kept_until_it_is_whole():
    seen, alive = [], []

    def note(point):
        alive.append(sum(ref() is not None for ref in seen[:-1]))
        seen.append(weakref.ref(point[0]))
        return point

    with served(serve_flow, BatchData(MapData(Images(6, VIEW_BYTES), note), 3), False, False) as owner:
        assert [batch[1].tolist() for kind, batch in owner.receive(3)[:2]] == [[0, 1, 2], [3, 4, 5]]
    assert alive == [0] * 6


def test_batch_that_is_broken_off_costs_no_memory_to_send_batches_in():
    def fail_at_three(point):
        if point[1] == 3:
            raise OSError("gone")
        return point

    ds = BatchData(MapData(Images(4, VIEW_BYTES), fail_at_three), 2)
    with served(serve_flow, ds, False, False, capacity=1) as owner:
        for number in range(20):
            assert [kind for kind, _ in owner.receive(2)] == [Record.POINT, Record.ERROR]
            owner.submit(_Command(number, None))
            assert owner.receive(2) == [(Record.BEGUN, number)] * 2
