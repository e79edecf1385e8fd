"""``tf.contrib.slim``: the layers and variables of ``tf.contrib``, with data, training and evaluation around them."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "tpack.tf1.contrib.layers": "* layers=",
        "tpack.tf1.contrib.framework": "*",
        "tpack.tf1.contrib.framework.variables": "",
        "tpack.tf1.contrib.losses": "",
        "tpack.tf1.contrib.metrics": "",
        "dataset_data_provider": (
            "data_provider= dataset= dataset_data_provider= parallel_reader= prefetch_queue= queues="
        ),
        "evaluation": "",
        "learning": "",
        "model_analyzer": "",
        "nets": "",
        "tfexample_decoder": "data_decoder= tfexample_decoder=",
    },
)
