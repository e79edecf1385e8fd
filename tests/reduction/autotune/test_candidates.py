import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import cpu_devices
from tpack.errors import ConfigError
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.autotune.candidates import PACKINGS, make_candidate, refusals
from tpack.reduction.autotune.measure import LIKELY_CANDIDATES
from tpack.reduction.names import ALGORITHMS
from tpack.reduction.wrappers.gradient_packer import GradientPackingReducer
from tpack.reduction.wrappers.packers import (
    AggregateSmallTensorPackingReducer,
    BucketReducer,
    ConcatAndSplitPackingReducer,
)


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
    ("num_towers", "unfit"), [(2, set()), (3, {"hierarchical", "rechd"}), (6, {"rechd"}), (8, set())]
)
def test_those_are_refused_that_cannot_serve_the_number_of_towers(num_towers, unfit, graph):
    refused = refusals(ALGORITHMS, cpu_devices(num_towers), ["float32", "float32"])
    assert refused.keys() == unfit | {"nccl"}
    assert "expected a GPU of its own" in refused["nccl"]
    assert all(f"got {num_towers}" in refused[name] for name in unfit)
    assert graph.get_operations() == []


def test_those_are_refused_that_cannot_sum_the_dtypes():
    refused = refusals(["one_device", "collective"], cpu_devices(2), ["int16", "float32"])
    assert list(refused) == ["collective"]
    assert "int16" in refused["collective"]
    names = [f"xring+{packing}" for packing in PACKINGS]
    assert refusals(names, cpu_devices(2), [tf.int64.name]) == {}


def test_gpus_are_for_nccl():
    assert refusals(["nccl", "nccl+packs"], ["/device:GPU:0", "/device:GPU:1"], ["float32"]) == {}


def test_a_candidate_is_there_once():
    with pytest.raises(ConfigError, match="got the candidates xring, xring: expected each once"):
        refusals(["xring", "xring"], cpu_devices(2), ["float32"])


def test_unknown_candidates_are_refused():
    with pytest.raises(
        ConfigError, match=r"got the candidate 'xring\+bags': expected one of packs, concat, small, buckets after"
    ):
        make_candidate("xring+bags", cpu_devices(2))
    with pytest.raises(ConfigError, match="got algorithm='sring'"):
        refusals(["sring+packs"], cpu_devices(2), ["float32"])
