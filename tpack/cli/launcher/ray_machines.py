"""Machines of a Ray cluster: an actor in a placement group for each worker, which runs the worker's agent.

    the caller                              a node of Ray
    JobRun, with a RayLink for each         actor (has the resources) -- pipes -- agent -- the worker's processes
       orders ----- calls of the actor ---->
              <---- calls that wait -------- reports

Ray places the actors, reserves their resources and ends them when the caller is gone; an agent whose actor is gone ends
everything. The worker is a process of its own: TensorFlow reads its environment once, at its import, and the end of the
process can be reported.
"""

import math
import os
import re
import select
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from tpack.cli.launcher.agent_client import Link, Machines, as_line, end_agent, start_agent
from tpack.cli.launcher.plan import Host
from tpack.errors import ClusterError, ConfigError
from tpack.utils.launch_env import OWN_GPUS_VARIABLE
from tpack.utils.lazy import import_optional
from tpack.utils.validation import is_number

TASK_VARIABLE = "TPACK_RAY_TASK"
"""The file with the function that a process calls; the result goes to a file of that name with ``.result``."""

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
"""The placements of a group on the nodes of a cluster."""

# Each is a thread of the actor, so that waiting for reports delays no order; orders stay in sequence.
_ORDERS, _REPORTS = "orders", "reports"
_RESOURCE = re.compile(r"([A-Za-z][\w:.-]*)=(\d+(?:\.\d+)?)", re.ASCII)
_JOIN_SECS = 10.0


def parse_resources(text: str) -> dict[str, float]:
    """Parse the resources of a worker, such as ``CPU=4,GPU=1``.

    Raises:
        ConfigError: It is malformed, or has a name twice.
    """
    found = [_RESOURCE.fullmatch(entry.strip()) for entry in text.split(",")]
    names = [each[1] for each in found if each is not None]
    if len(set(names)) < len(found):
        raise ConfigError(
            f"--resources got {text[:100]!r}: expected each resource once, with a number, as in CPU=4,GPU=1"
        )
    return {each[1]: float(each[2]) for each in found if each is not None}


@contextmanager
def ray_connected() -> Iterator[ModuleType]:
    """Connect to a Ray cluster.

    The first of: the cluster of an open connection, that of ``RAY_ADDRESS``, a running one of this machine, and a new
    one, shut down after the block.

    Raises:
        DependencyError: Ray is not installed.
        ClusterError: The connection failed.
    """
    ray = _ray()
    if ray.is_initialized():
        yield ray
        return
    try:
        ray.init(log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ClusterError(f"Ray cannot be reached: {error}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


class RayMachines(Machines):
    """The nodes of a Ray cluster.

    Args:
        ray: the module, connected.
        resources: those of each worker.
        strategy: the placement of the workers on nodes, one of `STRATEGIES`.
        start_secs: the timeout for free resources.
        task: the content of the file in `TASK_VARIABLE`.

    Attributes:
        results: the results of the workers of the last attempt, by rank; None without one.
    """

    def __init__(
        self,
        ray: ModuleType,
        resources: Mapping[str, float],
        *,
        strategy: str = "PACK",
        start_secs: float = 60.0,
        task: bytes | None = None,
    ) -> None:
        self.results: list[bytes | None] = []
        self._ray = ray
        self._resources = dict(resources)
        self._strategy = strategy
        self._start_secs = start_secs
        self._task = task
        self._actors: dict[Host, Any] = {}

    @contextmanager
    def take(self, workers: Sequence[Host]) -> Iterator[Sequence[Host]]:
        """Start an actor for each worker, in a placement group; ranks of one node are consecutive.

        Raises:
            ClusterError: Resources were not free in time, or an actor was lost at its start.
        """
        group = self._ray.util.placement_group([self._resources] * len(workers), strategy=self._strategy)
        actors: list[Any] = []
        try:
            if not group.wait(self._start_secs):
                raise ClusterError(self._no_room(len(workers)))
            actors += [self._start(group, bundle) for bundle in range(len(workers))]
            self._actors = self._placed(actors)
            yield tuple(self._actors)
            self.results = [self._result_of(actor) for actor in self._actors.values()]
        finally:
            for actor in actors:
                self._ray.kill(actor)
            self._ray.util.remove_placement_group(group)

    def connect(self, host: Host) -> "RayLink":
        """Take the agent of an actor."""
        return RayLink(host, self._ray, self._actors[host])

    def _no_room(self, num_workers: int) -> str:
        total = self._ray.cluster_resources()
        wanted, available = (
            ", ".join(f"{name} {numbers.get(name, 0):g}" for name in self._resources)
            for numbers in (self._resources, total)
        )
        return (
            f"Ray has had no room for {num_workers} workers of {wanted} each within {self._start_secs:g} s "
            f"({self._strategy}): all of its nodes together have {available}, and some of that may be in use"
        )

    def _start(self, group: Any, bundle: int) -> Any:
        others = {name: number for name, number in self._resources.items() if name not in ("CPU", "GPU", "memory")}
        place = self._ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            placement_group=group, placement_group_bundle_index=bundle
        )
        kind = self._ray.remote(
            num_cpus=self._resources.get("CPU", 0),
            num_gpus=self._resources.get("GPU", 0),
            memory=self._resources.get("memory"),
            resources=others,
            scheduling_strategy=place,
            concurrency_groups={_ORDERS: 1, _REPORTS: 1},
        )
        return kind(AgentActor).remote(self._task)

    def _placed(self, actors: Sequence[Any]) -> dict[Host, Any]:
        """Return {machine: actor} by rank."""
        try:
            names = self._ray.get([actor.address.remote() for actor in actors], timeout=self._start_secs)
        except self._ray.exceptions.RayError as error:
            raise ClusterError(f"an actor of Ray did not start: {error}") from error
        order = sorted(range(len(actors)), key=lambda number: names.index(names[number]))
        return {Host(names[number], 1, f"actor {number}"): actors[number] for number in order}

    def _result_of(self, actor: Any) -> bytes | None:
        try:
            result: bytes | None = self._ray.get(actor.result.remote(), timeout=self._start_secs)
        except self._ray.exceptions.RayError:
            # The actor is gone, which has ended the run.
            return None
        return result


class RayLink(Link):
    """Agent of a Ray actor; a thread writes its reports into pipes, so that a selector can wait for them."""

    def __init__(self, host: Host, ray: ModuleType, actor: Any) -> None:
        super().__init__(host)
        self._ray = ray
        self._actor = actor
        self._reports, reports = os.pipe()
        self._errors, errors = os.pipe()
        for descriptor in (self._reports, self._errors):
            os.set_blocking(descriptor, False)
        self._pump = threading.Thread(target=self._fill, args=(reports, errors), name="ray-link", daemon=True)
        self._pump.start()

    @property
    def reports(self) -> int:
        """The descriptor of its reports."""
        return self._reports

    @property
    def errors(self) -> int:
        """The descriptor of its standard error."""
        return self._errors

    def order(self, do: str, **arguments: Any) -> None:
        """Send an order."""
        if not self.is_gone:
            self._actor.write.options(concurrency_group=_ORDERS).remote(as_line(do, arguments))

    def flush(self) -> bool:
        """Do nothing: Ray queues orders."""
        return True

    def give_up(self) -> None:
        """End the actor, and with it the agent."""
        self._ray.kill(self._actor)
        self.is_gone = True

    def close(self, timeout_secs: float) -> None:
        """Close the connection."""
        with suppress(self._ray.exceptions.RayError):
            closing = self._actor.close.options(concurrency_group=_ORDERS).remote(timeout_secs)
            self._ray.get(closing, timeout=timeout_secs + _JOIN_SECS)
        for descriptor in (self._reports, self._errors):
            os.close(descriptor)
        self._pump.join(_JOIN_SECS)

    def _fill(self, reports: int, errors: int) -> None:
        """Write the agent's output into the pipes until its end, or until the pipes are closed."""
        try:
            while any(output := self._ray.get(self._actor.read.options(concurrency_group=_REPORTS).remote())):
                for descriptor, data in zip((reports, errors), output, strict=True):
                    _write(descriptor, data)
        except self._ray.exceptions.RayError as error:
            with suppress(BrokenPipeError):
                _write(errors, str(error).encode())
        except BrokenPipeError:
            return
        finally:
            os.close(reports)
            os.close(errors)


class AgentActor:
    """Agent and its pipes on a node of Ray, as an actor of `RayMachines`."""

    def __init__(self, task: bytes | None) -> None:
        self._task = ""
        if task is not None:
            descriptor, self._task = tempfile.mkstemp(prefix="tpack-ray-")
            with open(descriptor, "wb") as file:
                file.write(task)
        variables = {TASK_VARIABLE: self._task}
        if _ray().get_gpu_ids():
            variables[OWN_GPUS_VARIABLE] = "1"
        # A session of its own: a signal to the actor does not end the agent before it has ended everything.
        self._process = start_agent(environment={**os.environ, **variables})
        self._pipes = [_descriptor(self._process.stdout), _descriptor(self._process.stderr)]
        self._open = list(self._pipes)

    def address(self) -> str:
        """Return the address of this node for the others."""
        return str(_ray().util.get_node_ip_address())

    def write(self, data: bytes) -> None:
        """Send orders to the agent."""
        with suppress(BrokenPipeError):
            _write(_descriptor(self._process.stdin), data)

    def read(self) -> tuple[bytes, bytes]:
        """Wait for output of the agent; return that and its standard error, both empty at its end."""
        output = dict.fromkeys(self._pipes, b"")
        while self._open and not any(output.values()):
            for descriptor in select.select(self._open, [], [])[0]:
                output[descriptor] = os.read(descriptor, 1 << 18)
                if not output[descriptor]:
                    self._open.remove(descriptor)
        reports, errors = output.values()
        return reports, errors

    def result(self) -> bytes | None:
        """Return the worker's result, once."""
        with suppress(FileNotFoundError), open(f"{self._task}.result", "rb") as file:
            result = file.read()
            os.remove(file.name)
            return result
        return None

    def close(self, timeout_secs: float) -> None:
        """Close the agent's input, at which it ends everything, and kill it if it does not end."""
        end_agent(self._process, timeout_secs)
        if self._task:
            with suppress(FileNotFoundError):
                os.remove(self._task)


def _ray() -> ModuleType:
    return import_optional("ray", "ray")


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _descriptor(pipe: Any) -> int:
    return int(pipe.fileno())


def check_resources(owner: str, resources: Mapping[str, float]) -> dict[str, float]:
    """Check the resources of a worker.

    Raises:
        ConfigError: A name or number is malformed, or there is no resource.
    """
    for name, number in resources.items():
        if not isinstance(name, str) or not name or not is_number(number) or not 0 <= number < math.inf:
            raise ConfigError(f"{owner}: a worker needs {name!r}: {number!r}: expected a resource's name, and a number")
    if not any(resources.values()):
        raise ConfigError(f"{owner}: a worker needs nothing: expected resources such as {{'CPU': 1}}")
    return dict(resources)
