"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.input_source.base import FeedfreeInput as FeedfreeInput
from tpack.input_source.base import InputSource as InputSource
from tpack.input_source.dataset import TFDatasetInput as TFDatasetInput
from tpack.input_source.feed import FeedInput as FeedInput
from tpack.input_source.proxy import remap_input_source as remap_input_source
from tpack.input_source.queue_input import BatchQueueInput as BatchQueueInput
from tpack.input_source.queue_input import QueueInput as QueueInput
from tpack.input_source.staging import StagingInput as StagingInput
from tpack.input_source.tensors import DummyConstantInput as DummyConstantInput
from tpack.input_source.tensors import PlaceholderInput as PlaceholderInput
from tpack.input_source.tensors import TensorInput as TensorInput
from tpack.input_source.zmq_input import ZMQInput as ZMQInput
