"""``tf.contrib.slim.nets``: residual networks and VGG, with the variables of the published checkpoints."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__, {"resnet_utils": "resnet_utils=", "resnet_v1": "resnet_v1=", "resnet_v2": "resnet_v2=", "vgg": "vgg="}
)
