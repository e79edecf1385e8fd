"""The public names for optimizers around other optimizers, in the one module where scripts look for them."""

from tpack.tfutils.accum_grad_optimizer import AccumGradOptimizer
from tpack.tfutils.post_process_optimizer import PostProcessOptimizer, VariableAssignmentOptimizer
from tpack.tfutils.processed_optimizer import GradientProcessorOptimizer, apply_grad_processors
from tpack.tfutils.proxy_optimizer import ProxyOptimizer

__all__ = [
    "AccumGradOptimizer",
    "GradientProcessorOptimizer",
    "PostProcessOptimizer",
    "ProxyOptimizer",
    "VariableAssignmentOptimizer",
    "apply_grad_processors",
]
