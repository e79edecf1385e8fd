"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.multi_worker.all_reduce import Exchange as Exchange
from tpack.multi_worker.all_reduce import all_reduce_between_workers as all_reduce_between_workers
from tpack.multi_worker.all_reduce import copy_from_worker as copy_from_worker
from tpack.multi_worker.codecs.base import Cast as Cast
from tpack.multi_worker.codecs.base import Codec as Codec
from tpack.multi_worker.codecs.memory import ErrorFeedback as ErrorFeedback
from tpack.multi_worker.codecs.memory import Memory as Memory
from tpack.multi_worker.codecs.memory import MomentumCorrection as MomentumCorrection
from tpack.multi_worker.codecs.memory import MomentumFeedback as MomentumFeedback
from tpack.multi_worker.codecs.names import make_exchange as make_exchange
from tpack.multi_worker.codecs.power_sgd import PowerSGD as PowerSGD
from tpack.multi_worker.codecs.quantization import Int8 as Int8
from tpack.multi_worker.codecs.quantization import OneBit as OneBit
from tpack.multi_worker.codecs.sparsification import TopK as TopK
from tpack.multi_worker.memory_saver import MemorySaver as MemorySaver
from tpack.multi_worker.servers import WorkerServer as WorkerServer
from tpack.multi_worker.servers import WorkerSessionCreator as WorkerSessionCreator
from tpack.multi_worker.servers import start_server as start_server
from tpack.multi_worker.servers import task_device as task_device
from tpack.multi_worker.tables.embedding import sharded_embedding as sharded_embedding
from tpack.multi_worker.uneven import UnevenData as UnevenData
from tpack.multi_worker.worker_group import WorkerGroup as WorkerGroup
