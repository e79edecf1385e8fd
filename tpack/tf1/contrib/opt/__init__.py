"""``tf.contrib.opt``: optimizers that TensorFlow itself does not have."""

from typing import Any

from tpack.tf1.contrib.opt.adam import (
    AdaMaxOptimizer,
    AdamGSOptimizer,
    LazyAdamGSOptimizer,
    LazyAdamOptimizer,
    NadamOptimizer,
)
from tpack.tf1.contrib.opt.clipping import VariableClippingOptimizer, clip_gradients_by_global_norm
from tpack.tf1.contrib.opt.lars import LARSOptimizer
from tpack.tf1.contrib.opt.moving_average import MovingAverageOptimizer
from tpack.tf1.contrib.opt.reg_adagrad import RegAdagradOptimizer
from tpack.tf1.contrib.opt.sign import AddSignOptimizer, PowerSignOptimizer
from tpack.tf1.contrib.opt.weight_decay import (
    AdamWOptimizer,
    DecoupledWeightDecayExtension,
    MomentumWOptimizer,
    extend_with_decoupled_weight_decay,
)
from tpack.tf1.removed_names import missing_name

__all__ = [
    "AdaMaxOptimizer",
    "AdamGSOptimizer",
    "AdamWOptimizer",
    "AddSignOptimizer",
    "DecoupledWeightDecayExtension",
    "LARSOptimizer",
    "LazyAdamGSOptimizer",
    "LazyAdamOptimizer",
    "MomentumWOptimizer",
    "MovingAverageOptimizer",
    "NadamOptimizer",
    "PowerSignOptimizer",
    "RegAdagradOptimizer",
    "VariableClippingOptimizer",
    "clip_gradients_by_global_norm",
    "extend_with_decoupled_weight_decay",
]


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, __all__)
