"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.multi_worker.all_reduce import Exchange as Exchange
from tpack.multi_worker.all_reduce import all_reduce_between_workers as all_reduce_between_workers
from tpack.multi_worker.all_reduce import copy_from_worker as copy_from_worker
from tpack.multi_worker.servers import WorkerServer as WorkerServer
from tpack.multi_worker.servers import WorkerSessionCreator as WorkerSessionCreator
from tpack.multi_worker.servers import start_server as start_server
from tpack.multi_worker.servers import task_device as task_device
from tpack.multi_worker.worker_group import WorkerGroup as WorkerGroup
