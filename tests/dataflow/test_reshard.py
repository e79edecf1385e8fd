"""What workers have left of a pass is dealt out to others: each point once, whatever stands above the share."""

from itertools import islice

import numpy as np
import pytest

from tests.helpers.log_lines import captured_log
from tpack.dataflow import (
    BatchData,
    CacheData,
    DataFromGenerator,
    DataFromList,
    FixedSizeData,
    LocallyShuffleData,
    MapData,
    MapDataComponent,
    MultiProcessRunner,
    MultiThreadMapData,
    ProxyDataFlow,
    RepeatedData,
    ShardData,
    StatelessError,
)
from tpack.dataflow.checkpoint import Position, go_to
from tpack.dataflow.reshard import fit_to_batches, reshard
from tpack.errors import ConfigError, InputError
from tpack.utils.rng import fix_rng_seed

COUNT = 60


@pytest.fixture(autouse=True)
def no_seed():
    yield
    fix_rng_seed(None)


def source(count=COUNT):
    return DataFromList([[np.int64(k)] for k in range(count)])


def itself(point):
    return point


def batches(ds, size=2):
    return BatchData(ds, size, remainder=True)


CHAINS = {
    "points": lambda: ShardData(source()),
    "batches": lambda: batches(ShardData(source())),
    "in order": lambda: ShardData(DataFromList([[np.int64(k)] for k in range(COUNT)], shuffle=False)),
    "generator": lambda: ShardData(DataFromGenerator(lambda: ([np.int64(k)] for k in range(COUNT)))),
    "shuffled below": lambda: batches(ShardData(FixedSizeData(LocallyShuffleData(source(), 10), COUNT))),
    "repeated below": lambda: ShardData(RepeatedData(source(20), 3)),
    "mapped": lambda: batches(MapDataComponent(MapData(ShardData(source()), itself), np.negative)),
    "threads": lambda: batches(MultiThreadMapData(ShardData(source()), 2, itself, buffer_size=6, strict=True)),
    "threads, then batches in a size": lambda: FixedSizeData(
        batches(MultiThreadMapData(batches(ShardData(source()), 1), 1, itself, buffer_size=3, strict=True), 1), 5
    ),
}


class Worker:
    """One worker: its flow as an input source iterates it, and the points that it has used.

    Args:
        make: makes the flow.
        rank: its number.
        size: how many there are.
        start: where it begins; None is the beginning.
        told_after: after how many points its flow told a state.
    """

    def __init__(self, make, rank, size, start=None, told_after=0):
        fix_rng_seed(1000 + rank)
        self.ds = RepeatedData(make(), -1)
        self.shard = find(self.ds)
        self.shard.take_place(rank, size)
        self.ds.reset_state()
        points = iter(self.ds) if start is None else go_to(self.ds, start)
        self.used = [values(point) for point in islice(points, told_after)]
        self._state, self._points = self.ds.state_dict(), points
        self._told_after = told_after

    def use(self, count):
        """Use so many points in all; return the position after them."""
        self.used += [values(point) for point in islice(self._points, count - self._told_after)]
        # Some are taken which no step uses.
        list(islice(self._points, 2))
        return Position(self._state, count - self._told_after)


def find(ds):
    return ds if isinstance(ds, ShardData) else find(ds.ds)


def values(point):
    return np.abs(np.ravel(point[0])).tolist()


def flat(workers):
    return [value for worker in workers for point in worker.used for value in point]


def run(make, size, starts, num_steps):
    """Let workers make steps; return them, and their positions."""
    starts = starts or [None] * size
    # Each flow told its state at another time.
    workers = [Worker(make, rank, size, starts[rank], told_after=min(rank % 3, num_steps)) for rank in range(size)]
    return workers, [worker.use(num_steps) for worker in workers]


def dealt(make, positions, size):
    """Return where each of some new workers begins."""
    starts = []
    for rank in range(size):
        fix_rng_seed(2000 + rank)
        starts.append(reshard(RepeatedData(make(), -1), positions, rank, size))
    return starts


@pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS)
@pytest.mark.parametrize("sizes", [(2, 3, 1), (1, 4, 2)], ids=str)
def test_each_point_comes_when_one_worker_would_have_taken_it(make, sizes):
    alone = Worker(make, 0, 1)
    alone.use(2 * COUNT)
    per_point = len(alone.used[0])
    starts, seen = None, []
    for number, size in enumerate(sizes):
        # The last workers make an end of the pass and go on with the next, the others stop in it.
        is_last = number == len(sizes) - 1
        num_steps = (COUNT - len(seen) + (20 if is_last else 0)) // (size * per_point) // (1 if is_last else 3)
        workers, positions = run(make, size, starts, num_steps)
        seen += flat(workers)
        assert sorted(seen) == sorted(flat([alone])[: len(seen)])
        if not is_last:
            starts = dealt(make, positions, sizes[number + 1])
    assert len(seen) > COUNT


def test_it_is_dealt_out_where_another_process_reads_ahead():
    def make():
        return MultiProcessRunner(batches(ShardData(source())), 3, 1)

    workers, positions = [], []
    for rank in range(2):
        worker = Worker(make, rank, 2, told_after=rank)
        positions.append(worker.use(4))
        workers.append(worker)
        worker.ds.ds.close()
    seen = flat(workers)
    for rank, start in enumerate(dealt(make, positions, 3)):
        worker = Worker(make, rank, 3, start)
        worker.use(7)
        worker.ds.ds.close()
        seen += flat([worker])
    # The last round is not full: two of its points are dealt out to a third worker again.
    assert len(seen) == 16 + 3 * 14 + 0
    assert len(set(seen)) == len(seen)


BATCHES = {
    "batches": lambda size: BatchData(ShardData(source()), size),
    "mapped": lambda size: MapData(BatchData(MapData(ShardData(source()), itself), size), itself),
    "threads": lambda size: MultiThreadMapData(
        BatchData(ShardData(source()), size), 2, itself, buffer_size=3, strict=True
    ),
}


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
def test_workers_that_make_batches_of_another_size_take_what_is_left(make):
    # Twelve points a step, whoever shares them.
    workers, positions = run(lambda: make(6), 2, None, 3)
    seen = flat(workers)
    assert len(seen) == len(set(seen)) == 36
    starts = dealt(lambda: make(4), positions, 3)
    assert {start.state["ds"].get("batch_size", 4) for start in starts} == {4}
    seen += flat(run(lambda: make(4), 3, starts, 2)[0])
    assert sorted(seen) == list(range(COUNT))


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize(("former", "size"), [(6, 4), (4, 6)])
def test_a_position_fits_batches_of_another_size(make, former, size):
    worker = Worker(lambda: make(former), 0, 1, told_after=1)
    position = worker.use(24 // former)
    ds = RepeatedData(make(size), -1)
    find(ds).take_place(0, 1)
    fitting = fit_to_batches(ds, position)
    assert fitting.skipped == 0
    rest = Worker(lambda: make(size), 0, 1, fitting).use(36 // size)
    assert rest.skipped == 36 // size
    again = Worker(lambda: make(size), 0, 1, fitting)
    again.use(36 // size)
    seen = flat([worker])[:24] + flat([again])
    assert sorted(seen) == list(range(COUNT))


def test_a_position_of_the_same_batches_is_left_as_it_is():
    for make in (BATCHES["mapped"], lambda size: BatchData(LocallyShuffleData(source(), 10), size)):
        ds = make(6)
        if make is BATCHES["mapped"]:
            find(ds).take_place(0, 1)
        ds.reset_state()
        points = iter(ds)
        next(points)
        position = Position(ds.state_dict(), 2)
        assert fit_to_batches(make(6), position) is position
    # Of an older version, which did not tell the size.
    del position.state["batch_size"]
    assert fit_to_batches(make(4), position) is position
    make(4).load_state_dict(position.state)


def test_batches_that_were_kept_back_do_not_fit():
    def make(size):
        return LocallyShuffleData(BatchData(source(), size), 4)

    ds = make(6)
    ds.reset_state()
    next(iter(ds))
    with pytest.raises(StatelessError, match="LocallyShuffleData holds back"):
        fit_to_batches(make(4), Position(ds.state_dict()))


def test_what_cannot_be_dealt_out_says_why():
    for make, message in (
        (lambda: batches(source()), "one ShardData in it, not 0"),
        (
            lambda: LocallyShuffleData(ShardData(source(), 0, 1), 4),
            "LocallyShuffleData holds back points of one worker, and the rest of the epoch cannot be shared out",
        ),
        (lambda: batches(CacheData(ShardData(source(), 0, 1))), "CacheData holds back points"),
        (lambda: MultiThreadMapData(ShardData(source(), 0, 1), 2, itself), "MultiThreadMapData has no position"),
    ):
        if "no position" in message:
            # It never told one, so there is nothing to deal out.
            ds = make()
            ds.reset_state()
            with pytest.raises(StatelessError, match=message):
                ds.state_dict()
            ds.close()
        else:
            with pytest.raises(StatelessError, match=message):
                reshard(RepeatedData(make(), -1), [Position({})], 0, 2)
    _, positions = run(CHAINS["points"], 2, None, 5)
    with pytest.raises(InputError, match="got the state of a ShardData"):
        reshard(RepeatedData(batches(ShardData(source())), -1), positions, 0, 3)
    with pytest.raises(ConfigError, match="60 data points for 7 workers and remainder='error'"):
        reshard(RepeatedData(ShardData(source(), 0, 2, remainder="error"), -1), positions, 0, 7)


def test_workers_at_different_steps_are_told_and_nothing_is_lost():
    ahead, behind = (Worker(CHAINS["points"], rank, 2) for rank in range(2))
    positions = [ahead.use(7), behind.use(5)]
    with captured_log() as lines:
        starts = dealt(CHAINS["points"], positions, 1)
    assert any("had used different numbers of data points, 5 to 7" in line for line in lines)
    (last,), _ = run(CHAINS["points"], 1, starts, COUNT - 10)
    assert sorted({*flat([ahead, behind]), *flat([last])}) == list(range(COUNT))


def test_workers_that_read_different_data_are_found_out():
    positions = []
    for rank in range(2):
        worker = Worker(lambda rank=rank: ShardData(source(), seed=rank), rank, 2)
        positions.append(worker.use(5))
    with pytest.raises(StatelessError, match="below ShardData was not the same in all"):
        dealt(CHAINS["points"], positions, 3)


class Ahead(ProxyDataFlow):
    """A flow of a user that takes three points before they are asked for, and maps them."""

    reads_ahead = True
    map_func = staticmethod(lambda point: [-point[0]])
    sent, start, taken = None, None, 0

    def __iter__(self):
        points, self.sent = iter(self.ds) if self.sent is None else self.sent, None
        self.start, self.taken = self.ds.state_dict(), 0
        while ahead := list(islice(points, 3)):
            for point in ahead:
                self.taken += 1
                yield self.map_func(point)

    def state_dict(self):
        return Position(self.start or self.ds.state_dict(), self.taken).state_of(self)

    def load_state_dict(self, state):
        self.sent = go_to(self.ds, Position.from_state(self, state))


class Counted(ProxyDataFlow):
    """A flow of a user with a state of its own that holds nothing back."""

    holds_nothing_back = True

    def state_dict(self):
        return {**super().state_dict(), "flow": "Counted"}


@pytest.mark.parametrize("make", [lambda ds: Ahead(Counted(ds)), lambda ds: Counted(Ahead(ds))])
def test_what_flows_of_users_declare_is_trusted(make):
    def chain():
        return make(ShardData(source(12), remainder="keep"))

    workers = [Worker(chain, rank, 2) for rank in range(2)]
    positions = [worker.use(4) for worker in workers]
    (last,), _ = run(chain, 1, dealt(chain, positions, 1), 4)
    assert sorted([*flat(workers), *flat([last])]) == list(range(12))


def test_a_subclass_with_a_state_of_its_own_is_not_trusted():
    class Keeps(ProxyDataFlow):
        def state_dict(self):
            return super().state_dict()

    with pytest.raises(StatelessError, match="Keeps holds back points of"):
        reshard(RepeatedData(Keeps(ShardData(source(), 0, 1)), -1), [Position({})], 0, 2)
