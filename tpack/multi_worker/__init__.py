"""Training in several processes on TensorFlow's own runtime: servers, and what workers exchange through them."""

from tpack.multi_worker.servers import WorkerServer, WorkerSessionCreator, start_server, task_device
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = ["WorkerServer", "WorkerSessionCreator", "start_server", "task_device"]
