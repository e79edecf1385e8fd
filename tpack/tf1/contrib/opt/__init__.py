"""``tf.contrib.opt``: optimizers that TensorFlow itself does not have."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "adam": "AdaMaxOptimizer AdamGSOptimizer LazyAdamGSOptimizer LazyAdamOptimizer NadamOptimizer",
        "clipping": "VariableClippingOptimizer clip_gradients_by_global_norm",
        "lars": "LARSOptimizer",
        "moving_average": "MovingAverageOptimizer",
        "reg_adagrad": "RegAdagradOptimizer",
        "sign": "AddSignOptimizer PowerSignOptimizer",
        "weight_decay": (
            "AdamWOptimizer DecoupledWeightDecayExtension MomentumWOptimizer extend_with_decoupled_weight_decay"
        ),
    },
)
