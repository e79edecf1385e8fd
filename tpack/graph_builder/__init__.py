"""How a model is replicated over devices and how its gradients are reduced."""

from tpack.graph_builder.base import BuildResult, GraphBuilder, SyncOp
from tpack.graph_builder.compiled import CompilePolicy
from tpack.graph_builder.cost import GradientOptions, make_grad_fn
from tpack.graph_builder.loss_scale import LossScaling
from tpack.graph_builder.model_desc import ModelDesc, ModelDescBase
from tpack.graph_builder.precision import PrecisionPolicy
from tpack.graph_builder.predict import build_predict_tower
from tpack.graph_builder.replicated import (
    SyncMultiGPUReplicatedBuilder,
    apply_in_replicas,
    build_replicas,
    copy_to_replicas,
)
from tpack.graph_builder.shared import AsyncMultiGPUBuilder, SyncMultiGPUParameterServerBuilder
from tpack.graph_builder.simple import SimpleBuilder
from tpack.graph_builder.towers import BuiltTowers, DataParallelBuilder, build_towers
from tpack.reduction.functions import (
    aggregate_grads_colocate,
    allreduce_grads,
    allreduce_grads_hierarchical,
    allreduce_grads_naive,
    merge_grad_list,
    split_grad_list,
)
from tpack.reduction.wrappers.gradient_packer import GradientPacker
from tpack.tower.devices import LeastLoadedDeviceSetter
from tpack.tower.getters import OverrideCachingDevice, override_to_local_variable
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = [
    "AsyncMultiGPUBuilder",
    "BuildResult",
    "BuiltTowers",
    "CompilePolicy",
    "DataParallelBuilder",
    "GradientOptions",
    "GradientPacker",
    "GraphBuilder",
    "LeastLoadedDeviceSetter",
    "LossScaling",
    "ModelDesc",
    "ModelDescBase",
    "OverrideCachingDevice",
    "PrecisionPolicy",
    "SimpleBuilder",
    "SyncMultiGPUParameterServerBuilder",
    "SyncMultiGPUReplicatedBuilder",
    "SyncOp",
    "aggregate_grads_colocate",
    "allreduce_grads",
    "allreduce_grads_hierarchical",
    "allreduce_grads_naive",
    "apply_in_replicas",
    "build_predict_tower",
    "build_replicas",
    "build_towers",
    "copy_to_replicas",
    "make_grad_fn",
    "merge_grad_list",
    "override_to_local_variable",
    "split_grad_list",
]
