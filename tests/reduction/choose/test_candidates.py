import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import cpu_devices
from tpack.errors import ConfigError
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.choose.candidates import PACKINGS, fitting_candidates, make_candidate
from tpack.reduction.choose.measure import LIKELY_CANDIDATES
from tpack.reduction.names import ALGORITHMS
from tpack.reduction.wrappers.buckets import BucketReducer
from tpack.reduction.wrappers.gradient_packer import GradientPackingReducer
from tpack.reduction.wrappers.packers import AggregateSmallTensorPackingReducer, ConcatAndSplitPackingReducer


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("xring", RingReducer),
        ("xring+packs", GradientPackingReducer),
        ("xring+concat", ConcatAndSplitPackingReducer),
        ("xring+small", AggregateSmallTensorPackingReducer),
        ("xring+buckets", BucketReducer),
    ],
)
def test_a_name_stands_for_a_reducer(name, kind):
    reducer = make_candidate(name, cpu_devices(4))
    assert type(reducer) is kind
    assert "ring" in reducer.name


def test_every_likely_candidate_can_be_made():
    assert len({make_candidate(name, cpu_devices(8)).name for name in LIKELY_CANDIDATES}) == len(LIKELY_CANDIDATES)


@pytest.mark.parametrize(
    ("num_towers", "unfit"), [(2, {"hierarchical"}), (3, {"hierarchical", "rechd"}), (6, {"rechd"}), (8, set())]
)
def test_those_fit_that_can_serve_the_number_of_towers(num_towers, unfit, graph):
    fitting = fitting_candidates(ALGORITHMS, cpu_devices(num_towers), ["float32", "float32"])
    assert set(ALGORITHMS) - set(fitting) == unfit | {"nccl"}
    assert list(fitting) == [name for name in ALGORITHMS if name in fitting]
    assert graph.get_operations() == []


def test_those_fit_that_can_sum_the_dtypes():
    fitting = fitting_candidates(["one_device", "collective"], cpu_devices(2), ["int16", "float32"])
    assert fitting == ("one_device",)
    names = [f"xring+{packing}" for packing in PACKINGS]
    assert fitting_candidates(names, cpu_devices(2), [tf.int64.name]) == tuple(names)


def test_gpus_are_for_nccl():
    assert fitting_candidates(["nccl", "nccl+packs"], ["/device:GPU:0", "/device:GPU:1"], ["float32"]) == (
        "nccl",
        "nccl+packs",
    )


def test_unknown_candidates_are_refused():
    with pytest.raises(ConfigError, match=r"wanted one of packs, concat, small, buckets after the '\+'.*'xring\+bags'"):
        make_candidate("xring+bags", cpu_devices(2))
    with pytest.raises(ConfigError, match="got 'sring'"):
        fitting_candidates(["sring+packs"], cpu_devices(2), ["float32"])
