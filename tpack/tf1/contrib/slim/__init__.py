"""``tf.contrib.slim``: the layers and variables of ``tf.contrib``, with data, training and evaluation around them."""

from tpack.tf1.contrib import framework as _framework
from tpack.tf1.contrib import layers as _layers
from tpack.tf1.places import look_up

_PACKAGE = "tpack.tf1.contrib.slim"

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        **{name: f"{_layers.__name__}:{name}" for name in _layers.__all__},
        **{name: f"{_framework.__name__}:{name}" for name in _framework.__all__},
        "data_decoder": f"{_PACKAGE}.tfexample_decoder",
        "data_provider": f"{_PACKAGE}.dataset_data_provider",
        "dataset": f"{_PACKAGE}.dataset_data_provider",
        "dataset_data_provider": f"{_PACKAGE}.dataset_data_provider",
        "evaluation": f"{_PACKAGE}.evaluation",
        "layers": "tpack.tf1.contrib.layers",
        "learning": f"{_PACKAGE}.learning",
        "losses": "tpack.tf1.contrib.losses",
        "metrics": "tpack.tf1.contrib.metrics",
        "model_analyzer": f"{_PACKAGE}.model_analyzer",
        "parallel_reader": f"{_PACKAGE}.parallel_reader",
        "prefetch_queue": f"{_PACKAGE}.parallel_reader",
        "queues": f"{_PACKAGE}.parallel_reader",
        "tfexample_decoder": f"{_PACKAGE}.tfexample_decoder",
    },
)
