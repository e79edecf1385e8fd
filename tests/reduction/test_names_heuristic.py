from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.names import choose_by_heuristic


def test_by_kind_is_never_nccl():
    kinds = {type(choose_by_heuristic([f"/device:GPU:{i}" for i in range(k)]).reducer) for k in range(1, 9)}
    assert kinds == {RoundRobinReducer, HierarchicalReducer}
