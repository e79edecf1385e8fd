"""Layers: functions that make variables and operations under one name, with tensorpack's names and variable names."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "batch_norm": ("BatchNorm", "BatchRenorm"),
        "conv2d": ("Conv2D", "Conv2DTranspose", "Deconv2D"),
        "dropout": ("Dropout",),
        "fc": ("FullyConnected",),
        "linearwrap": ("ConcatWith", "LinearWrap"),
        "nonlin": ("BNReLU", "Maxout", "PReLU"),
        "norms": ("GroupNorm", "InstanceNorm", "LayerNorm"),
        "pool": ("AvgPooling", "FixedUnPooling", "GlobalAvgPooling", "MaxPooling"),
        "registry": ("disable_layer_logging", "layer_register"),
        "regularize": (
            "add_keras_losses",
            "l1_regularizer",
            "l2_regularizer",
            "regularize_cost",
            "regularize_cost_from_collection",
        ),
        "variables": ("VariableHolder", "rename_tflayer_get_variable"),
    },
)
