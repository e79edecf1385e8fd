"""Gradient reduction: K towers' gradients to their sum or mean in every tower.

Every algorithm is a `Reducer`; a wrapper such as `GradientPackingReducer` is one too, and so is the choice of the
fastest one, `AutoReducer`. This package needs no trainer.
"""

from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.composite import CompositeReducer
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer
from tpack.reduction.algorithms.hierarchical import HierarchicalReducer
from tpack.reduction.algorithms.nccl import NcclReducer
from tpack.reduction.algorithms.one_device import IdentityReducer, OneDeviceReducer, RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.algorithms.shuffle import CpuShuffleReducer, ShuffleReducer
from tpack.reduction.base import Reducer, ReducerWrapper
from tpack.reduction.choose.by_kind import ReducerChoice, choose_the_best
from tpack.reduction.choose.by_measurement import AutoReducer, ChoiceCache, MeasuredChoice, choose_by_measurement
from tpack.reduction.choose.measure import Measurement, MeasuringOptions
from tpack.reduction.functions import (
    ColocatedReduction,
    aggregate_grads_colocate,
    allreduce_grads,
    allreduce_grads_hierarchical,
    allreduce_grads_naive,
    merge_grad_list,
    split_grad_list,
)
from tpack.reduction.modes import REDUCTION_MODES, reducer_for_mode
from tpack.reduction.names import make_reducer
from tpack.reduction.over_towers import mean_over_towers, stack_over_towers, sum_over_towers
from tpack.reduction.spec import AllReduceSpec, parse_all_reduce_spec, reducer_for_spec
from tpack.reduction.sums import copy_to_each, on_device_of, sum_column
from tpack.reduction.traffic import TrafficReport, count_traffic
from tpack.reduction.wrappers.buckets import BucketPacker, BucketReducer
from tpack.reduction.wrappers.by_size import SplitBySizeReducer
from tpack.reduction.wrappers.densify import DensifyReducer
from tpack.reduction.wrappers.gradient_packer import GradientPacker, GradientPackingReducer
from tpack.reduction.wrappers.packers import (
    AggregateSmallTensorPacker,
    AggregateSmallTensorPackingReducer,
    ConcatAndSplitPacker,
    ConcatAndSplitPackingReducer,
)
from tpack.reduction.wrappers.sharding import ShardingReducer
from tpack.reduction.wrappers.wire import WireDtypeReducer
from tpack.tower.grads import ReduceOp
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = [
    "AggregateSmallTensorPacker",
    "AggregateSmallTensorPackingReducer",
    "AllReduceSpec",
    "AutoReducer",
    "BucketPacker",
    "BucketReducer",
    "ChoiceCache",
    "CollectiveReducer",
    "ColocatedReduction",
    "CompositeReducer",
    "ConcatAndSplitPacker",
    "ConcatAndSplitPackingReducer",
    "CpuShuffleReducer",
    "DensifyReducer",
    "GradientPacker",
    "GradientPackingReducer",
    "HalvingDoublingReducer",
    "HierarchicalReducer",
    "IdentityReducer",
    "MeasuredChoice",
    "Measurement",
    "MeasuringOptions",
    "NcclReducer",
    "OneDeviceReducer",
    "REDUCTION_MODES",
    "ReduceOp",
    "Reducer",
    "ReducerChoice",
    "ReducerWrapper",
    "RingReducer",
    "RoundRobinReducer",
    "ShardingReducer",
    "ShuffleReducer",
    "SplitBySizeReducer",
    "TrafficReport",
    "WireDtypeReducer",
    "aggregate_grads_colocate",
    "allreduce_grads",
    "allreduce_grads_hierarchical",
    "allreduce_grads_naive",
    "choose_by_measurement",
    "choose_the_best",
    "copy_to_each",
    "count_traffic",
    "make_reducer",
    "mean_over_towers",
    "merge_grad_list",
    "on_device_of",
    "parse_all_reduce_spec",
    "reducer_for_mode",
    "reducer_for_spec",
    "split_grad_list",
    "stack_over_towers",
    "sum_column",
    "sum_over_towers",
]
