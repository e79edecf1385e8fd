"""Sources of the towers' input tensors."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "base": ("FeedfreeInput", "InputSource"),
        "dataset": ("TFDatasetInput",),
        "feed": ("FeedInput",),
        "proxy": ("remap_input_source",),
        "queue_input": ("BatchQueueInput", "QueueInput"),
        "staging": ("StagingInput",),
        "tensors": ("DummyConstantInput", "PlaceholderInput", "TensorInput"),
        "zmq_input": ("ZMQInput",),
    },
)
