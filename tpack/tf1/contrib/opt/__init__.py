"""``tf.contrib.opt``: optimizers that TensorFlow itself does not have."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "adam": "AdaMaxOptimizer AdamGSOptimizer LazyAdamGSOptimizer LazyAdamOptimizer NadamOptimizer",
        "update_rules": "AddSignOptimizer LARSOptimizer PowerSignOptimizer RegAdagradOptimizer",
        "wrappers": (
            "AdamWOptimizer DecoupledWeightDecayExtension MomentumWOptimizer MovingAverageOptimizer "
            "VariableClippingOptimizer clip_gradients_by_global_norm extend_with_decoupled_weight_decay"
        ),
    },
)
