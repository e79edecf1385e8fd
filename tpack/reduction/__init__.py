"""Gradient reduction: K towers' gradients to their sum or mean in every tower.

Every algorithm is a `Reducer`; a wrapper such as `GradientPackingReducer` is one too. This package needs no trainer.
"""

from tpack.reduction.base import ReduceOp, Reducer
from tpack.reduction.collective import CollectiveReducer
from tpack.reduction.colocated import ColocatedReduction
from tpack.reduction.functions import (
    aggregate_grads_colocate,
    allreduce_grads,
    allreduce_grads_hierarchical,
    allreduce_grads_naive,
    merge_grad_list,
    split_grad_list,
)
from tpack.reduction.gradient_packer import GradientPacker
from tpack.reduction.hierarchical import HierarchicalReducer
from tpack.reduction.identity import IdentityReducer
from tpack.reduction.modes import REDUCTION_MODES, ReducerChoice, reducer_for_mode
from tpack.reduction.nccl import NcclReducer
from tpack.reduction.one_device import OneDeviceReducer
from tpack.reduction.packing import GradientPackingReducer
from tpack.reduction.round_robin import RoundRobinReducer

__all__ = [
    "REDUCTION_MODES",
    "CollectiveReducer",
    "ColocatedReduction",
    "GradientPacker",
    "GradientPackingReducer",
    "HierarchicalReducer",
    "IdentityReducer",
    "NcclReducer",
    "OneDeviceReducer",
    "ReduceOp",
    "Reducer",
    "ReducerChoice",
    "RoundRobinReducer",
    "aggregate_grads_colocate",
    "allreduce_grads",
    "allreduce_grads_hierarchical",
    "allreduce_grads_naive",
    "merge_grad_list",
    "reducer_for_mode",
    "split_grad_list",
]
