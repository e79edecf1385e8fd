import pytest

from tpack.dataflow.shard import ShardData
from tpack.dataflow.sources import DataFromList
from tpack.multi_worker.callbacks import first_other_pass


@pytest.mark.parametrize(
    ("passes", "found"),
    [
        ([([], 0), ([], 5)], None),
        ([([[5, 3]], 2), ([[5, 4]], 0)], None),
        ([([[5, 3]], 5), ([[5, 4]], 0)], None),
        ([([[5, 2], [4, 1]], 0), ([[5, 2], [4, 1]], 3)], None),
        ([None, ([[5, 4]], 0)], None),
        ([([[5, 1]], 0), ([[4, 1]], 0)], "pass 1 has 5 in worker 0, 4 in worker 1 as its share"),
        ([([[5, 3]], 0), ([[5, 2], [4, 1]], 0)], "pass 3 has 5 in worker 0, 4 in worker 1 as its share"),
        ([([[5, 2]], 4), ([[5, 2], [3, 1]], 0)], "pass 3 has 4 or more in worker 0, 3 in worker 1 as its share"),
        ([([[5, 2]], 3), ([[5, 2], [3, 1]], 0)], None),
    ],
)
def test_the_first_pass_that_differs_is_found(passes, found):
    assert first_other_pass(passes) == found


def test_a_share_counts_the_points_of_its_passes():
    shard = ShardData(DataFromList(list(range(7)), shuffle=False), 0, 2)
    shard.reset_state()
    points = iter(shard)
    next(points)
    assert shard.passes_made() == ([], 1)
    state = shard.state_dict()
    assert len(list(points)) == 3
    list(shard)
    assert shard.passes_made() == ([[4, 2]], 0)
    shard.load_state_dict(state)
    assert shard.passes_made() is None
    kept = ShardData(DataFromList(list(range(7)), shuffle=False), 0, 2, remainder="keep")
    list(kept)
    assert kept.passes_made() is None
