"""TensorFlow server of each process of a cluster, and sessions on it.

Each worker has a graph and a session of its own; graphs share objects on servers by name. A process has one server,
from the first session until it ends, since TensorFlow cannot stop one. Two things differ from a session without a
cluster: operations without a job may run in any task, so each is placed; and the next graph would find objects of this
one under the same names, so each graph has a container.
"""

import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import tensorflow.compat.v1 as tf

from tpack.compat.operations import place_in_task
from tpack.errors import ClusterError, ConfigError, DataExhaustedError, DeviceError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.port_filter import listen_only_at, own_addresses
from tpack.tfutils.sesscreate import NewSessionCreator, get_default_sess_config
from tpack.tower.devices import check_devices_present, list_gpus, provide_cpu_devices, required_cpu_devices
from tpack.utils import logger
from tpack.utils.addresses import parse_address
from tpack.utils.progress import report_phase
from tpack.utils.validation import check_arguments, check_count

NUM_CHANNELS = 4
"""Connections from each server to each other one; with one, large tensors move at half the speed."""

_SERVERS: dict[tuple[int, str], "WorkerServer"] = {}


LOST_CONNECTION = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.InternalError,
    tf.errors.OutOfRangeError,
    DataExhaustedError,
)
"""Errors of a step after the loss of another process: its queues are closed then, as at the end of data."""


@dataclass(frozen=True)
class WorkerServer:
    """The TensorFlow server of this process; made by `start_server`.

    Attributes:
        member: the place of this process.
        server: it cannot be stopped, and must stay referenced.
        num_cpu_devices: the number of logical CPU devices of its task.
    """

    member: ClusterMember
    server: tf.train.Server = field(repr=False)
    num_cpu_devices: int

    @property
    def target(self) -> str:
        """The target of sessions."""
        return str(self.server.target)

    @property
    def devices(self) -> set[tuple[str, int]]:
        """The (type, index) pairs of the devices of its task."""
        gpus = self.server.server_def.default_session_config.gpu_options.visible_device_list
        kinds = {"CPU": self.num_cpu_devices, "GPU": len(gpus.split(",")) if gpus else 0}
        return {(kind, index) for kind, count in kinds.items() for index in range(count)}

    @property
    def device(self) -> str:
        """The task of this process, as part of a device's name."""
        return f"/job:{self.member.job}/task:{self.member.index}"


@check_arguments
def task_device(member: ClusterMember, rank: int | None = None) -> str:
    """Return a worker's task as part of a device's name, such as ``"/job:worker/task:1"``.

    Args:
        member: any process of the cluster.
        rank: the worker's; None for the process itself, of any job.

    Raises:
        ConfigError: The rank does not exist.
    """
    if rank is None:
        return f"/job:{member.job}/task:{member.index}"
    check_count("task_device", "rank", rank, 0, member.num_workers - 1)
    num_chiefs = len(member.cluster.get("chief", ()))
    return f"/job:chief/task:{rank}" if rank < num_chiefs else f"/job:worker/task:{rank - num_chiefs}"


@check_arguments
def start_server(
    member: ClusterMember, *, num_cpu_devices: int = 1, config: tf.ConfigProto | None = None
) -> WorkerServer:
    """Start the TensorFlow server of this process, or return the running one.

    It can be reached at the member's address only, on Linux and where the address is known to be this machine's;
    otherwise at all addresses, with a warning in the log. Nothing is encrypted, and whoever reaches the port can run
    operations.

    Args:
        member: the place of this process: a worker or a parameter server. Its port reservation ends here.
        num_cpu_devices: the number of logical CPU devices of the task, which cannot change later.
        config: further settings; None means ``get_default_sess_config()``.

    Raises:
        ConfigError: The process is alone, or is an evaluator, which is outside of the cluster.
        ClusterError: Another process listens at the port.
        DeviceError: The running server has fewer devices.
    """
    check_count("start_server", "num_cpu_devices", num_cpu_devices)
    address = member.address
    if address is None or member.job == "evaluator":
        raise ConfigError(f"start_server got {member}: expected a worker or a parameter server with an address")
    key = (os.getpid(), address)
    if key not in _SERVERS:
        _SERVERS[key] = _started(member, num_cpu_devices, config or get_default_sess_config())
    running = _SERVERS[key]
    if running.num_cpu_devices < num_cpu_devices:
        raise DeviceError(
            f"start_server got num_cpu_devices={num_cpu_devices}: expected at most {running.num_cpu_devices}, as the "
            f"server of this process at {address} has; start it with {num_cpu_devices} at first"
        )
    return running


def use_server(member: ClusterMember, server: tf.train.Server) -> WorkerServer:
    """Register a server that a script has started at the member's address as that of this process."""
    config = server.server_def.default_session_config
    key = (os.getpid(), str(member.address))
    _SERVERS[key] = WorkerServer(member, server, max(1, config.device_count.get("CPU", 1)))
    return _SERVERS[key]


def let_calls_to_lost_servers_fail() -> None:
    """Make calls to servers that are gone fail in this process from now on.

    By default TensorFlow retries forever, and even closing a session waits for the answer. Call it when all servers
    run: those that have not started fail as well.

    Creates:
        The environment variable GRPC_FAIL_FAST, if it is not set; TensorFlow reads it at each call.
    """
    os.environ.setdefault("GRPC_FAIL_FAST", "true")


def _started(member: ClusterMember, num_cpu_devices: int, config: tf.ConfigProto) -> WorkerServer:
    jobs = {job: list(addresses) for job, addresses in member.cluster.items() if job != "evaluator"}
    host, port = parse_address("ClusterMember", "address", member.address)
    try:
        server = tf.train.Server(
            jobs, member.job, member.index, config=_server_config(member, num_cpu_devices, config), start=False
        )
    except tf.errors.OpError as error:
        raise ClusterError(
            f"{member.job} {member.index} cannot start its TensorFlow server at {member.address}: "
            f"{_why_not(port) or error.message}"
        ) from error
    addresses = own_addresses(host)
    if not addresses or not listen_only_at(port, addresses):
        logger.warning(
            f"The TensorFlow server of this process listens at port {port} of all interfaces of this machine, since "
            f"{f'this system cannot restrict it to {host}' if addresses else f'{host} is no address of this machine'}. "
            "Whoever reaches it can run operations: it belongs into a closed network"
        )
    server.start()
    if member.reservation is not None:
        # Not before: another program could have got the port.
        member.reservation.close()
    return WorkerServer(member, server, num_cpu_devices)


def _server_config(member: ClusterMember, num_cpu_devices: int, config: tf.ConfigProto) -> tf.ConfigProto:
    full = tf.ConfigProto()
    full.CopyFrom(config)
    full.device_count["CPU"] = max(num_cpu_devices, full.device_count.get("CPU", 0))
    full.rpc_options.num_channels_per_target = NUM_CHANNELS
    gpus = list_gpus()
    if gpus and not full.gpu_options.visible_device_list:
        full.gpu_options.visible_device_list = ",".join(map(str, member.gpus(len(gpus))))
    return full


def _why_not(port: int) -> str:
    """Return why a port cannot be used, or "" if it can."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen()
        except OSError as error:
            return f"port {port} cannot be used ({error.strerror}); another process has it, or it needs more rights"
    return ""


def _tasks_of(graph: tf.Graph) -> list[str]:
    """Return the tasks, or whole jobs, in which a graph has operations, as parts of a device's name."""
    specs = (tf.DeviceSpec.from_string(device) for device in {operation.device for operation in graph.get_operations()})
    tasks = {f"/job:{spec.job}" + (f"/task:{spec.task}" if spec.task is not None else "") for spec in specs if spec.job}
    return sorted(tasks)


def _connect_at_once() -> None:
    """Do nothing before a session is made."""


@check_arguments
class WorkerSessionCreator(NewSessionCreator):
    """Create a session on the server of this process, which is started with the CPU devices that the graph needs.

    Operations without a job are placed in this process's task, and their state in a container of the graph's own: no
    variable has a value in a new session, except for those that are placed by name.

    Args:
        member: the place of this process.
        config: as for `NewSessionCreator`.
        grappler: as for `NewSessionCreator`.
        num_cores: the number of cores for this process; None for all that it may use. See `share_of_cores`.
        before_connecting: called between the start of the server and the session, which waits for all other servers
            without a limit: to find out that they run, such as by a barrier.

    Raises:
        ConfigError: As for `NewSessionCreator`; when a session is created, also from `start_server`.
        ClusterError: From `start_server`, when a session is created.
    """

    def __init__(
        self,
        member: ClusterMember,
        config: tf.ConfigProto | None = None,
        *,
        grappler: str = "auto",
        num_cores: int | None = None,
        before_connecting: Callable[[], None] = _connect_at_once,
    ) -> None:
        super().__init__("", config, grappler=grappler)
        self.member = member
        self._num_cores = num_cores if num_cores is None else check_count(self, "num_cores", num_cores)
        self._before_connecting = before_connecting

    def _open_session(self, graph: tf.Graph, config: tf.ConfigProto) -> tf.Session:
        """Return a session on the server; the graph must not change after it."""
        config.rpc_options.num_channels_per_target = NUM_CHANNELS
        provide_cpu_devices(config, graph, self._num_cores)
        server = start_server(self.member, num_cpu_devices=required_cpu_devices(graph), config=config)
        check_devices_present(graph, server.devices)
        self._before_connecting()
        place_in_task(graph.get_operations(), server.device, f"graph-{uuid.uuid4().hex}")
        if not config.device_filters:
            # Without them a session connects to all servers, by four connections each.
            config.device_filters.extend(_tasks_of(graph))
        session = tf.Session(server.target, graph=graph, config=config)
        report_phase("session")
        return session
