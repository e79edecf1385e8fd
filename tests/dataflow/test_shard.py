import json
import os

import pytest

from tpack.dataflow import BatchData, DataFromGenerator, DataFromList, JoinData, LocallyShuffleData, MapData
from tpack.dataflow.shard import ShardData, shard_files, shards_in
from tpack.dataflow.sources import IndexedDataFlow
from tpack.errors import ConfigError, InputError
from tpack.utils.launch_env import worker_place
from tpack.utils.rng import fix_rng_seed, get_rng

VARIABLES = ("RANK", "WORLD_SIZE", "TF_CONFIG")


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    fix_rng_seed(None)


def numbers(count):
    return DataFromList([[k] for k in range(count)], shuffle=False)


def shares(make, size, num_passes=1, **kwargs):
    """Return what each of some workers reads in some passes."""
    found = []
    for rank in range(size):
        # Workers are processes, each with generators of its own.
        fix_rng_seed(100 + rank)
        shard = ShardData(make(), rank, size, **kwargs)
        shard.reset_state()
        found.append([[point[0] for point in shard] for _ in range(num_passes)])
    return found


@pytest.mark.parametrize("count", [12, 13, 15, 2, 0])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_every_point_is_dealt_out_once_and_the_remainder_as_was_chosen(count, size):
    whole, rest = divmod(count, size)
    wrapped = [share for (share,) in shares(lambda: numbers(count), size)]
    assert [len(share) for share in wrapped] == [whole + (rest > 0)] * size
    dealt = sorted(sum(wrapped, []))
    assert sorted(set(dealt)) == list(range(count))
    assert len(dealt) - len(set(dealt)) == (size - rest if rest else 0)
    kept = [share for (share,) in shares(lambda: numbers(count), size, remainder="keep")]
    assert sorted(sum(kept, [])) == list(range(count))
    assert [len(share) for share in kept] == [whole + (rank < rest) for rank in range(size)]
    for rank in range(size):
        assert len(ShardData(numbers(count), rank, size)) == len(wrapped[rank])
        assert len(ShardData(numbers(count), rank, size, remainder="keep")) == len(kept[rank])
    if count >= size:
        dropped = [share for (share,) in shares(lambda: numbers(count), size, remainder="drop")]
        assert sorted(sum(dropped, [])) == list(range(whole * size))
        assert {len(share) for share in dropped} == {whole}


def test_shuffles_below_are_the_same_in_all_workers_whatever_seeds_they_fixed():
    passes = zip(*shares(lambda: MapData(DataFromList([[k] for k in range(12)]), list), 3, num_passes=3), strict=True)
    orders = [[point for turn in zip(*shares_of_pass, strict=True) for point in turn] for shares_of_pass in passes]
    assert [sorted(order) for order in orders] == [list(range(12))] * 3
    assert len({tuple(order) for order in orders}) == 3
    other = shares(lambda: DataFromList([[k] for k in range(12)]), 3, seed=1)
    assert other != shares(lambda: DataFromList([[k] for k in range(12)]), 3)


def test_what_stands_above_the_share_draws_for_itself():
    def drawn(seed):
        fix_rng_seed(seed)
        ds = LocallyShuffleData(ShardData(numbers(4), 0, 2), 2)
        ds.reset_state()
        return ds.rng.rand(3).tolist()

    assert drawn(1) != drawn(2)
    fix_rng_seed(1)
    expected = get_rng(LocallyShuffleData(numbers(2), 2)).rand(3).tolist()
    assert drawn(1) == expected


def test_points_of_others_are_not_read_where_there_is_a_choice():
    class Watched(IndexedDataFlow):
        read = []

        def __len__(self):
            return 10

        def _read(self, index):
            self.read.append(index)
            return [index]

    shard = ShardData(Watched(shuffle=False), 1, 3)
    shard.reset_state()
    assert [point[0] for point in shard] == Watched.read == [1, 4, 7, 9]

    class InItsOwnWay(Watched):
        def _points(self, start):
            yield from ([-k] for k in range(start, 10))

    shard = ShardData(InItsOwnWay(shuffle=False), 1, 3)
    shard.reset_state()
    assert [point[0] for point in shard] == [-1, -4, -7, -9]


def test_a_remainder_that_must_not_be_is_an_error():
    with pytest.raises(ConfigError, match="10 data points for 4 workers and remainder='error': expected"):
        ShardData(numbers(10), 0, 4, remainder="error")
    with pytest.raises(ConfigError, match="3 data points for 4 workers and remainder='drop': expected at least"):
        ShardData(numbers(3), 0, 4, remainder="drop")
    unknown = ShardData(DataFromGenerator(lambda: ([k] for k in range(5))), 0, 2, remainder="error")
    unknown.reset_state()
    with pytest.raises(InputError, match="1 data points left for 2 workers: expected a multiple"):
        list(unknown)
    whole = ShardData(numbers(12), 3, 4, remainder="error")
    whole.reset_state()
    assert [point[0] for point in whole] == [3, 7, 11]
    assert len(whole) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1,), "rank=1 and size=None: expected both or none"),
        ((None, 2), "rank=None and size=2: expected both or none"),
        ((2, 2), "rank"),
        ((-1, 2), "rank"),
        ((0, 0), "size"),
    ],
)
def test_places_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        ShardData(numbers(4), *arguments)


def test_other_arguments_are_refused():
    with pytest.raises(ConfigError, match="remainder"):
        ShardData(numbers(4), remainder="round")
    with pytest.raises(ConfigError, match="seed"):
        ShardData(numbers(4), seed=-1)
    shard = ShardData(numbers(10), 0, 2, remainder="error")
    with pytest.raises(ConfigError, match="4 workers"):
        shard.take_place(0, 4)
    assert (shard.rank, shard.size) == (0, 2)


def test_the_place_is_that_which_the_launcher_says(monkeypatch):
    assert worker_place(os.environ) == (0, 1)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    shard = ShardData(numbers(7))
    assert (shard.rank, shard.size, len(shard), shard.is_given) == (2, 3, 3, False)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert (shard.rank, shard.size) == (2, 3), "it stays what it was"
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}
    for kind, index, expected in (
        ("chief", 0, (0, 3)),
        ("worker", 1, (2, 3)),
        ("ps", 0, (0, 1)),
        ("evaluator", 0, (0, 1)),
    ):
        config = {"cluster": cluster, "task": {"type": kind, "index": index}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        assert worker_place(os.environ) == expected


def test_files_are_put_in_order_and_dealt_out():
    files = [f"part-{k}" for k in (3, 1, 4, 0, 2)]
    parts = [shard_files(files, rank, 2, shuffle=False, remainder="keep") for rank in range(2)]
    for part in parts:
        part.reset_state()
    assert [list(part) for part in parts] == [[["part-0"], ["part-2"], ["part-4"]], [["part-1"], ["part-3"]]]
    found = []
    for rank in range(2):
        part = shard_files(files[::-1] if rank else files, rank, 2, seed=5)
        part.reset_state()
        found += [name for (name,) in part]
    assert sorted(set(found)) == sorted(files)
    assert len(found) == 6
    with pytest.raises(ConfigError, match=r"shard_files got files=\[\]: expected different names of files"):
        shard_files([])
    with pytest.raises(ConfigError, match="'a'.* more than once"):
        shard_files(["a", "b", "a"])


def test_a_position_of_another_number_of_workers_is_refused():
    shard = ShardData(numbers(10), 1, 2)
    shard.reset_state()
    state = shard.state_dict()
    other = ShardData(numbers(10), 1, 3)
    other.reset_state()
    with pytest.raises(InputError, match="one of 2 workers: expected one of"):
        other.load_state_dict(state)


def test_the_position_is_the_same_in_all_workers():
    states = []
    for rank in range(3):
        shard = ShardData(DataFromList([[k] for k in range(11)]), rank, 3)
        shard.reset_state()
        points = iter(shard)
        next(points), next(points)
        states.append(repr(shard.state_dict()))
    assert len(set(states)) == 1


def test_shards_are_found_wherever_they_are():
    one, other = ShardData(numbers(4), 0, 2), ShardData(numbers(4), 1, 2)
    assert shards_in(BatchData(JoinData([one, MapData(other, list)]), 2)) == [one, other]
    assert shards_in(numbers(3)) == []
