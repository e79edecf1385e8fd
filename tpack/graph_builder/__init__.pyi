"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.graph_builder.base import BuildResult as BuildResult
from tpack.graph_builder.base import GraphBuilder as GraphBuilder
from tpack.graph_builder.base import SyncOp as SyncOp
from tpack.graph_builder.compiled import CompilePolicy as CompilePolicy
from tpack.graph_builder.cost import GradientOptions as GradientOptions
from tpack.graph_builder.cost import make_grad_fn as make_grad_fn
from tpack.graph_builder.model_desc import ModelDesc as ModelDesc
from tpack.graph_builder.model_desc import ModelDescBase as ModelDescBase
from tpack.graph_builder.parameter_server import AsyncMultiGPUBuilder as AsyncMultiGPUBuilder
from tpack.graph_builder.parameter_server import (
    SyncMultiGPUParameterServerBuilder as SyncMultiGPUParameterServerBuilder,
)
from tpack.graph_builder.precision import LossScaling as LossScaling
from tpack.graph_builder.precision import PrecisionPolicy as PrecisionPolicy
from tpack.graph_builder.predict import build_predict_tower as build_predict_tower
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder as SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.replicated import apply_in_replicas as apply_in_replicas
from tpack.graph_builder.replicated import build_replicas as build_replicas
from tpack.graph_builder.replicated import copy_to_replicas as copy_to_replicas
from tpack.graph_builder.towers import BuiltTowers as BuiltTowers
from tpack.graph_builder.towers import DataParallelBuilder as DataParallelBuilder
from tpack.graph_builder.towers import SimpleBuilder as SimpleBuilder
from tpack.graph_builder.towers import build_towers as build_towers
from tpack.reduction.gradients import merge_grad_list as merge_grad_list
from tpack.reduction.gradients import split_grad_list as split_grad_list
from tpack.reduction.modes import aggregate_grads_colocate as aggregate_grads_colocate
from tpack.reduction.modes import allreduce_grads as allreduce_grads
from tpack.reduction.modes import allreduce_grads_hierarchical as allreduce_grads_hierarchical
from tpack.reduction.modes import allreduce_grads_naive as allreduce_grads_naive
from tpack.reduction.wrappers.gradient_packer import GradientPacker as GradientPacker
from tpack.tower.devices import LeastLoadedDeviceSetter as LeastLoadedDeviceSetter
from tpack.tower.getters import OverrideCachingDevice as OverrideCachingDevice
from tpack.tower.getters import override_to_local_variable as override_to_local_variable
