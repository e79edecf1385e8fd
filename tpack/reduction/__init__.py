"""Gradient reduction: K towers' gradients to their sum or mean in every tower.

Every algorithm is a `Reducer`; a wrapper such as `GradientPackingReducer` is one too, and so is the choice of the
fastest one, `AutoReducer`. This package needs no trainer.
"""

from tpack.reduction.algorithms import make_reducer
from tpack.reduction.auto import AutoReducer
from tpack.reduction.base import ReduceOp, Reducer
from tpack.reduction.buckets import BucketPacker, BucketReducer
from tpack.reduction.by_size import SplitBySizeReducer
from tpack.reduction.choice_cache import ChoiceCache
from tpack.reduction.choose import ReducerChoice, choose_the_best
from tpack.reduction.collective import CollectiveReducer
from tpack.reduction.colocated import ColocatedReduction
from tpack.reduction.composite import CompositeReducer
from tpack.reduction.concat_split import ConcatAndSplitPacker, ConcatAndSplitPackingReducer
from tpack.reduction.cpu_shuffle import CpuShuffleReducer
from tpack.reduction.cross_tower import mean_over_towers, stack_over_towers, sum_over_towers
from tpack.reduction.densify import DensifyReducer
from tpack.reduction.functions import (
    aggregate_grads_colocate,
    allreduce_grads,
    allreduce_grads_hierarchical,
    allreduce_grads_naive,
    merge_grad_list,
    split_grad_list,
)
from tpack.reduction.gradient_packer import GradientPacker
from tpack.reduction.halving_doubling import HalvingDoublingReducer
from tpack.reduction.hierarchical import HierarchicalReducer
from tpack.reduction.identity import IdentityReducer
from tpack.reduction.measure import MeasuringOptions
from tpack.reduction.measured_choice import MeasuredChoice, choose_by_measurement
from tpack.reduction.measurement import Measurement
from tpack.reduction.modes import REDUCTION_MODES, reducer_for_mode
from tpack.reduction.nccl import NcclReducer
from tpack.reduction.one_device import OneDeviceReducer
from tpack.reduction.packing import GradientPackingReducer
from tpack.reduction.ring import RingReducer
from tpack.reduction.round_robin import RoundRobinReducer
from tpack.reduction.sharding import ShardingReducer
from tpack.reduction.shuffle import ShuffleReducer
from tpack.reduction.small_tensors import AggregateSmallTensorPacker, AggregateSmallTensorPackingReducer
from tpack.reduction.spec import AllReduceSpec, parse_all_reduce_spec, reducer_for_spec
from tpack.reduction.traffic import TrafficReport, count_traffic
from tpack.reduction.wire import WireDtypeReducer

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
    "count_traffic",
    "make_reducer",
    "mean_over_towers",
    "merge_grad_list",
    "parse_all_reduce_spec",
    "reducer_for_mode",
    "reducer_for_spec",
    "split_grad_list",
    "stack_over_towers",
    "sum_over_towers",
]
