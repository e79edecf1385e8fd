"""Training in several processes on TensorFlow's own runtime: servers, and what workers exchange through them."""

from tpack.multi_worker.exchange import Exchange, WorkerGroup, all_reduce_between_workers, copy_from_worker
from tpack.multi_worker.servers import WorkerServer, WorkerSessionCreator, start_server, task_device
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = [
    "Exchange",
    "WorkerGroup",
    "WorkerServer",
    "WorkerSessionCreator",
    "all_reduce_between_workers",
    "copy_from_worker",
    "start_server",
    "task_device",
]
