"""``tf.layers`` of TensorFlow 1: layers that make their variables by ``tf.get_variable``."""

from tpack.tf1.name_table import look_up

__getattr__, _, __all__ = look_up(
    __name__,
    {
        "base": "Layer",
        "convolutional": (
            "Conv1D Conv2D Conv3D conv1d conv2d conv3d Conv2DTranspose Conv3DTranspose conv2d_transpose "
            "conv3d_transpose SeparableConv1D SeparableConv2D separable_conv1d separable_conv2d"
        ),
        "core": "Dense Dropout Flatten dense dropout flatten",
        "arguments": "InputSpec",
        "normalization": "BatchNormalization batch_normalization",
        "pooling": (
            "AveragePooling1D AveragePooling2D AveragePooling3D MaxPooling1D MaxPooling2D MaxPooling3D "
            "average_pooling1d average_pooling2d average_pooling3d max_pooling1d max_pooling2d max_pooling3d"
        ),
    },
)


def __dir__() -> list[str]:
    return __all__
