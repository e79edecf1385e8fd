"""``tf.contrib.util``: values of tensors that are known while the graph is built, and their protos."""

from tpack.tf1.name_table import look_up

_PLACES = {
    "constant_value": "tf.get_static_value",
    "make_ndarray": "tf.make_ndarray",
    "make_tensor_proto": "tf.make_tensor_proto",
}

__getattr__, __dir__, __all__ = look_up(__name__, _PLACES)
