"""What every flow with workers must do, tested on each of them; new interpreters are started where processes are."""

import gc
import pickle
import threading
from dataclasses import dataclass
from itertools import islice
from typing import Any

import psutil
import pytest

from tests.helpers.flow_members import flow_types
from tests.helpers.flows import COUNT, Counting, Unsized, same
from tests.helpers.worker_functions import Randoms, Sometimes, fail
from tpack.dataflow.base import DataFlow, DataFlowTerminated
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.parallel.process_map import MultiProcessMapAndBatchData, MultiProcessMapData
from tpack.dataflow.parallel.process_runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tpack.dataflow.parallel.threads import MultiThreadMapData, MultiThreadRunner
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, DataWorkerError, InputError
from tpack.utils import serialize
from tpack.utils.rng import fix_rng_seed


@dataclass(frozen=True)
class Member:
    """A flow with workers around another flow."""

    wrap: Any
    """Makes it."""
    length: int = COUNT
    """Of a pass."""
    unsized_length: int | None = None
    """Of a pass if the wrapped flow does not know its length and this differs."""
    is_ordered: bool = False
    """Whether passes are those of the wrapped flow."""
    resets_here: bool = True
    """Whether the wrapped flow is iterated in this process."""


def threads(count):
    """Return a function that runs flows in threads, the first of which is the given one."""

    def wrap(ds):
        if not isinstance(ds, DataFlow):
            return MultiThreadRunner(lambda: ds, 3, count)
        flows = iter([ds, *(pickle.loads(pickle.dumps(ds)) for _ in range(count - 1))])
        return MultiThreadRunner(lambda: next(flows), 3, count)

    return wrap


MEMBERS = {
    "runner": Member(lambda ds: MultiProcessRunner(ds, 4, 1), is_ordered=True, resets_here=False),
    "runners": Member(lambda ds: MultiProcessRunnerZMQ(ds, 2, hwm=3), unsized_length=2 * COUNT, resets_here=False),
    "process map": Member(lambda ds: MultiProcessMapData(ds, 2, same, buffer_size=3)),
    "strict process map": Member(
        lambda ds: MultiProcessMapData(ds, 2, same, buffer_size=3, strict=True), is_ordered=True
    ),
    "process map and batch": Member(lambda ds: MultiProcessMapAndBatchData(ds, 1, same, 3), 2),
    "thread runner": Member(threads(1), is_ordered=True),
    "thread runners": Member(threads(2), unsized_length=2 * COUNT),
    "thread map": Member(lambda ds: MultiThreadMapData(ds, 2, same, buffer_size=3)),
    "strict thread map": Member(
        lambda ds: MultiThreadMapData(ds, 2, same, buffer_size=3, strict=True), is_ordered=True
    ),
}
WITH_STATE = ["runner", "strict process map", "strict thread map"]

every_member = pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS)


@pytest.fixture(autouse=True)
def clean():
    """Leave no fixed seed behind, and no workers of a flow that the traceback of an exception refers to."""
    yield
    fix_rng_seed(None)
    gc.collect()


def ready(member, ds=None):
    flow = member.wrap(Counting() if ds is None else ds)
    flow.reset_state()
    return flow


@every_member
def test_passes_have_their_length_and_one_that_was_broken_off_does_not_change_that(member):
    ds = ready(member)
    assert len(ds) == member.length
    passes = [list(ds) for _ in range(2)]
    for count in (1, 2, 1):
        points = iter(ds)
        list(islice(points, count))
        points.close()
    for _ in ds:
        break
    passes.append(list(ds))
    assert [len(points) for points in passes] == [member.length] * 3
    assert {type(point) for points in passes for point in points} == {list}
    if member.is_ordered:
        assert passes == [list(Counting())] * 3


@every_member
def test_flow_of_unknown_length_can_be_listed(member):
    ds = ready(member, Unsized())
    length = member.unsized_length or member.length
    assert [len(list(ds)) for _ in range(2)] == [length] * 2
    next(iter(ds))
    assert len(list(ds)) == length
    with pytest.raises(NotImplementedError, match="does not know its length"):
        len(ds)


@every_member
def test_wrapped_flow_is_reset_once_where_it_is_iterated(member):
    inner = Counting()
    ds = member.wrap(inner)
    assert (inner.num_resets, inner.num_passes) == (0, 0)
    ds.reset_state()
    assert inner.num_resets == int(member.resets_here)


@every_member
def test_flow_that_was_not_reset_says_so(member):
    with pytest.raises(InputError, match=r"call reset_state\(\) once before iterating"):
        list(member.wrap(Counting()))


@every_member
def test_second_iteration_at_a_time_is_refused(member):
    ds = ready(member)
    points = iter(ds)
    next(points)
    with pytest.raises(InputError, match="is being iterated already"):
        next(iter(ds))


@every_member
def test_exception_comes_out_as_a_worker_error_or_as_it_is(member):
    ds = ready(member, Sometimes(fail, 3, COUNT))
    for _ in range(2):
        with pytest.raises(OSError, match="the disk is gone") as caught:
            try:
                # Threads and processes that run ahead yield the points of several passes before.
                for _ in range(10):
                    list(ds)
            except DataWorkerError as error:
                assert str(error).count("raised OSError: the disk is gone") == 1
                raise error.__cause__ from None
        assert isinstance(caught.value, OSError)


@every_member
def test_pickled_flow_works_and_leaves_the_workers_to_the_original(member):
    if isinstance(member.wrap(Counting()), MultiThreadRunner):
        ds = pickle.loads(pickle.dumps(member.wrap(Counting())))
    else:
        original = ready(member)
        points = iter(original)
        next(points)
        ds = pickle.loads(pickle.dumps(original))
        with pytest.raises(InputError, match="call reset_state"):
            list(ds)
    ds.reset_state()
    assert len(list(ds)) == member.length


@every_member
def test_flow_can_be_iterated_in_another_thread_after_the_one_that_reset_it_has_ended(member):
    ds = member.wrap(Counting())
    thread = threading.Thread(target=ds.reset_state)
    thread.start()
    thread.join()
    found = []
    thread = threading.Thread(target=lambda: found.extend(ds))
    thread.start()
    thread.join()
    assert len(found) == member.length
    assert len(list(ds)) == member.length


@every_member
def test_closed_flow_has_no_workers_and_reset_state_starts_new_ones(member):
    before = set(psutil.Process().children())
    ds = ready(member)
    list(ds)
    ds.close()
    assert set(psutil.Process().children()) <= before or not isinstance(ds, (MultiProcessRunner, MultiProcessMapData))
    for _ in range(2):
        with pytest.raises(DataFlowTerminated, match=r"reset_state\(\) to start new"):
            list(ds)
    ds.reset_state()
    assert len(list(ds)) == member.length


@every_member
def test_workers_of_a_flow_that_is_reset_again_are_ended(member):
    others = set(psutil.Process().children())
    ds = ready(member)
    for _ in range(2):
        before = set(psutil.Process().children()) - others
        ds.reset_state()
        assert not before & set(psutil.Process().children())


@every_member
def test_what_is_no_flow_is_refused(member):
    with pytest.raises(ConfigError, match="expected a (new )?DataFlow"):
        member.wrap([1, 2, 3])


def first_numbers(ds, num_workers):
    """Return the first three numbers of each worker, whatever their order."""
    found = {}
    while len(found) < num_workers or min(map(len, found.values())) < 3:
        for own, of_numpy, worker in ds:
            found.setdefault(worker, []).append((own, of_numpy))
    return {tuple(numbers[:3]) for numbers in found.values()}


@pytest.mark.parametrize(("name", "num_workers"), [("runner", 1), ("runners", 2)])
def test_runs_repeat_under_a_fixed_seed_and_workers_differ(name, num_workers):
    runs = []
    for seed in (7, 7, 8):
        fix_rng_seed(seed)
        runs.append(first_numbers(ready(MEMBERS[name], Randoms(3)), num_workers))
        assert len(runs[-1]) == num_workers
    assert runs[0] == runs[1]
    assert not runs[0] & runs[2]


@every_member
def test_position_can_be_told_or_the_reason_is_said(member):
    ds = ready(member, DataFromList([[k, str(k)] for k in range(COUNT)]))
    if member in [MEMBERS[name] for name in WITH_STATE]:
        assert ds.state_dict()["skipped"] == 0
        return
    for action in (ds.state_dict, lambda: ds.load_state_dict({})):
        with pytest.raises(StatelessError, match="has no position"):
            action()
    ds.end_pass()


def shuffled(count=40):
    return DataFromList([[k, str(k)] for k in range(count)])


def seeded(name, seed):
    fix_rng_seed(seed)
    return ready(MEMBERS[name], shuffled())


def as_bytes(state):
    return serialize.dumps(state)


@pytest.mark.parametrize("name", WITH_STATE)
def test_interrupted_run_goes_on_with_the_very_next_point(name):
    ds = seeded(name, 7)
    run = [list(ds) for _ in range(3)]
    assert run[0] != run[1]
    ds, states = seeded(name, 7), []
    for number in range(2):
        states.append((number, 0, as_bytes(ds.state_dict())))
        for count, _ in enumerate(ds, 1):
            if count in (1, 19, 20, 39, 40):
                states.append((number, count, as_bytes(ds.state_dict())))
    resumed = seeded(name, 8)
    for number, count, state in states:
        resumed.load_state_dict(serialize.loads(state))
        assert as_bytes(resumed.state_dict()) == state
        assert list(resumed) == run[number][count:]
        assert list(resumed) == run[number + 1]


@pytest.mark.parametrize("name", WITH_STATE)
def test_pass_that_was_given_up_is_told(name):
    ds, resumed = seeded(name, 7), seeded(name, 8)
    for _ in range(2):
        points = iter(ds)
        list(islice(points, 5))
        points.close()
        ds.end_pass()
        resumed.load_state_dict(ds.state_dict())
        assert list(ds) == list(resumed)


DAMAGES = [{"flow": "Other"}, {"ds": b"x"}, {"skipped": -1}, {"is_over": 3}, {"more": 1}]


@pytest.mark.parametrize("name", WITH_STATE)
@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_damaged_state_is_refused_and_nothing_changes(name, damage):
    ds, other = seeded(name, 7), seeded(name, 7)
    state = ds.state_dict()
    with pytest.raises(InputError):
        ds.load_state_dict({**state, **damage})
    assert as_bytes(ds.state_dict()) == as_bytes(state)
    assert list(ds) == list(other)


def test_every_flow_with_workers_is_in_this_file():
    ours = {kind for kind in flow_types() if kind.__module__.startswith("tpack.dataflow.parallel.")}
    tested = {type(member.wrap(Counting())) for member in MEMBERS.values()}
    assert {kind.__name__ for kind in ours - tested} == {"_ProcessRunner", "MapFlow"}
