"""How data reaches the graph: where the towers' input tensors come from."""

from tpack.input_source.base import FeedfreeInput, InputSource
from tpack.input_source.dataset import TFDatasetInput
from tpack.input_source.feed import FeedInput
from tpack.input_source.proxy import remap_input_source
from tpack.input_source.queue_input import BatchQueueInput, QueueInput
from tpack.input_source.staging import StagingInput
from tpack.input_source.tensors import DummyConstantInput, PlaceholderInput, TensorInput
from tpack.input_source.zmq_input import ZMQInput
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = [
    "BatchQueueInput",
    "DummyConstantInput",
    "FeedInput",
    "FeedfreeInput",
    "InputSource",
    "PlaceholderInput",
    "QueueInput",
    "StagingInput",
    "TFDatasetInput",
    "TensorInput",
    "ZMQInput",
    "remap_input_source",
]
