"""Machines of a Ray cluster: an actor in a placement group for each worker, which runs the worker's agent.

    the caller                              a node of Ray
    Attempt, with a RayLink for each        actor (has the resources) -- pipes -- agent -- the worker's processes
       orders ----- calls of the actor ---->
              <---- calls that wait -------- reports

Ray places the actors, reserves their resources and ends them when the caller is gone; an agent whose actor is gone ends
everything. The worker is a process of its own and not the actor's: TensorFlow reads its environment once, at its
import, and the end of the process can be reported.
"""

import math
import os
import re
import select
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from tpack.cli.launcher.agent_client import Link, Machines, agent_command, as_line
from tpack.cli.launcher.plan import Host
from tpack.errors import ClusterError, ConfigError
from tpack.utils.launch_env import OWN_GPUS_VARIABLE
from tpack.utils.optional import import_optional
from tpack.utils.validation import is_number

TASK_VARIABLE = "TPACK_RAY_TASK"
"""The file that has what a process is to call; what it returned is to be in a file of that name with ``.result``."""

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
"""How a placement group may lie on the nodes of a cluster."""

# Each is a thread of the actor, so that what waits for reports keeps no order waiting; orders come in their order.
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

    It is the one that this process is connected to; else that of ``RAY_ADDRESS``, or the one that runs on this machine;
    else a new one that lives for as long as the context.

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
        told = ", ".join(f"{name} {total.get(name, 0):g}" for name in self._resources)
        return (
            f"Ray has had no room for {num_workers} workers of {_shown(self._resources)} each within "
            f"{self._start_secs:g} s ({self._strategy}): all of its nodes together have {told}, and some of that may "
            "be in use"
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
            # Whose actor is gone has left nothing; that it has gone was the end of the attempt.
            return None
        return result


class RayLink(Link):
    """The agent of an actor.

    What it reports comes through pipes, which a thread fills, so that it can be waited for together with all else.

    Args:
        host: where it is.
        ray: the module, connected.
        actor: the handle of an `AgentActor`.
    """

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
        """The descriptor that its reports come from."""
        return self._reports

    @property
    def errors(self) -> int:
        """The descriptor that what it complains about comes from."""
        return self._errors

    def order(self, do: str, **arguments: Any) -> None:
        """Send an order; one that is gone is told nothing, which is seen where its reports end."""
        if not self.is_gone:
            self._actor.write.options(concurrency_group=_ORDERS).remote(as_line(do, arguments))

    def flush(self) -> bool:
        """Do nothing: Ray keeps orders until they are taken."""
        return True

    def give_up(self) -> None:
        """End the actor, and with it the agent."""
        self._ray.kill(self._actor)
        self.is_gone = True

    def close(self, timeout_secs: float) -> None:
        """Let the agent go."""
        with suppress(self._ray.exceptions.RayError):
            closing = self._actor.close.options(concurrency_group=_ORDERS).remote(timeout_secs)
            self._ray.get(closing, timeout=timeout_secs + _JOIN_SECS)
        for descriptor in (self._reports, self._errors):
            os.close(descriptor)
        self._pump.join(_JOIN_SECS)

    def _fill(self, reports: int, errors: int) -> None:
        """Write what the agent says into the pipes until it says nothing more, or nobody reads."""
        try:
            while any(said := self._ray.get(self._actor.read.options(concurrency_group=_REPORTS).remote())):
                for descriptor, data in zip((reports, errors), said, strict=True):
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
    """Runs an agent on a node of Ray, and passes on what it is told and what it says. Made an actor by `RayMachines`.

    Args:
        task: what goes into the file that `TASK_VARIABLE` names; None for no such file.
    """

    def __init__(self, task: bytes | None) -> None:
        self._task = None if task is None else _file_of(task)
        # An agent has its own session: what ends the actor is not to end it before it has ended everything.
        self._process = subprocess.Popen(
            agent_command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, TASK_VARIABLE: self._task or "", **_told_of_gpus()},
            start_new_session=True,
        )
        self._open = [_descriptor(self._process.stdout), _descriptor(self._process.stderr)]

    def address(self) -> str:
        """Return the address by which the other nodes find this one."""
        return str(_ray().util.get_node_ip_address())

    def write(self, data: bytes) -> None:
        """Give the agent orders."""
        with suppress(BrokenPipeError):
            _write(_descriptor(self._process.stdin), data)

    def read(self) -> tuple[bytes, bytes]:
        """Wait until the agent says something; return its reports and its complaints, both empty at its end."""
        said = {descriptor: b"" for descriptor in self._descriptors()}
        while self._open and not any(said.values()):
            for descriptor in select.select(self._open, [], [])[0]:
                said[descriptor] = os.read(descriptor, 1 << 18)
                if not said[descriptor]:
                    self._open.remove(descriptor)
        reports, errors = said.values()
        return reports, errors

    def result(self) -> bytes | None:
        """Return what the worker has left, once."""
        with suppress(FileNotFoundError), open(f"{self._task}.result", "rb") as file:
            result = file.read()
            os.remove(file.name)
            return result
        return None

    def close(self, timeout_secs: float) -> None:
        """Let the agent end everything, and kill it if it does not end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout_secs)
        except subprocess.TimeoutExpired:
            self._process.kill()
        if self._task is not None:
            with suppress(FileNotFoundError):
                os.remove(self._task)

    def _descriptors(self) -> tuple[int, int]:
        return _descriptor(self._process.stdout), _descriptor(self._process.stderr)


def _told_of_gpus() -> dict[str, str]:
    """Return what tells a process of an actor that it sees only GPUs of its own, if Ray has given it any."""
    return {OWN_GPUS_VARIABLE: "1"} if _ray().get_gpu_ids() else {}


def _ray() -> ModuleType:
    return import_optional("ray", "ray")


def _file_of(data: bytes) -> str:
    descriptor, path = tempfile.mkstemp(prefix="tpack-ray-")
    with open(descriptor, "wb") as file:
        file.write(data)
    return path


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _descriptor(pipe: Any) -> int:
    return int(pipe.fileno())


def _shown(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {number:g}" for name, number in resources.items())


def check_resources(owner: str, resources: Mapping[str, float]) -> dict[str, float]:
    """Return what a worker needs, checked: {name: number}, at least something.

    Raises:
        ConfigError: A name or a number is none, or nothing is needed at all.
    """
    for name, number in resources.items():
        if not isinstance(name, str) or not name or not is_number(number) or not 0 <= number < math.inf:
            raise ConfigError(f"{owner}: a worker needs {name!r}: {number!r}: expected a resource's name, and a number")
    if not any(resources.values()):
        raise ConfigError(f"{owner}: a worker needs nothing: expected resources such as {{'CPU': 1}}")
    return dict(resources)
