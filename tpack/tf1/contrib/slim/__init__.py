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
        "losses": "tpack.tf1.contrib.losses",
        "metrics": "tpack.tf1.contrib.metrics",
        "learning": f"{_PACKAGE}.learning",
    },
)
