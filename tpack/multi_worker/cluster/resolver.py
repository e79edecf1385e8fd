"""Who am I: the place of this process in a cluster, by arguments, by what its launcher says, or by a rendezvous."""

import os
from collections.abc import Mapping

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember, ClusterRank, ClusterTask
from tpack.multi_worker.cluster.environment import LauncherInfo, find_in_environment, launch_of, meeting_address
from tpack.multi_worker.cluster.ports import parse_address
from tpack.multi_worker.cluster.rendezvous import meet
from tpack.multi_worker.control.handshake import SECRET_VARIABLE, RendezvousOptions
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_number


@check_arguments
def resolve_cluster(
    given: ClusterTask | ClusterRank | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    timeout_secs: float = 300.0,
) -> ClusterMember:
    """Find out which process of which cluster this is, and say so in one line of the log.

    What is given counts before what the environment says; there `TF_CONFIG` counts first, then ``RANK`` and
    ``WORLD_SIZE`` as torchrun sets them, Slurm, Open MPI, other MPIs; else the process is alone. Where only ranks are
    known, the processes meet at ``MASTER_ADDR`` and ``MASTER_PORT``, and the first gives out the addresses: all of them
    have to call this, once.

    Args:
        given: the place of this process, if it is known.
        environment: its variables; None are those of the process.
        timeout_secs: how long to wait for the others, where they have to meet.

    Raises:
        ConfigError: What is said is malformed or contradicts itself; the message shows the field.
        ClusterError: The others did not come in time, or they are of another job, or have another secret.

    Example:
        ``member = resolve_cluster()``, and then ``if member.is_chief: ...``
    """
    limit = check_number("resolve_cluster", "timeout_secs", timeout_secs, 0, is_low_allowed=False)
    variables = os.environ if environment is None else environment
    found = find_in_environment(variables) if given is None else LauncherInfo(given, "its arguments")
    if found.incomplete:
        raise ConfigError(f"{found.incomplete}; or unset what is there, if this process is to be alone")
    member = _member(found, variables, limit)
    logger.info("Cluster: %s.", member)
    return member


def check_only_process(owner: str) -> None:
    """Refuse to train in one of several processes that a launcher started to train together.

    For what trains on the devices of one machine: each process would train a whole model by itself, and write over the
    others' files. What trains in several processes takes its place among them from `resolve_cluster` instead.

    Args:
        owner: who is to train.

    Raises:
        ConfigError: There are several, or a variable cannot be read.
    """
    found = find_in_environment(os.environ)
    if found.size > 1:
        unset = " ".join(f"-u {name}" for name in _variables_of_several())
        raise ConfigError(
            f"{owner} trains on the devices of one machine, and {found.variable} says that this is one of {found.size} "
            "processes: each would train alone. Start one process; or, if each is to train a model of its own, in a "
            f"directory of its own, start them without what says so (env {unset} python ...)"
        )


def _variables_of_several() -> list[str]:
    """Return all variables by which this is one of several processes."""
    environment, names = dict(os.environ), []
    while (found := find_in_environment(environment)).size > 1:
        names.append(found.variable)
        del environment[found.variable]
    return names


def _member(found: LauncherInfo, environment: Mapping[str, str], timeout_secs: float) -> ClusterMember:
    place = found.place
    if isinstance(place, ClusterTask):
        return _listed(place, found, environment, timeout_secs)
    if place is None or place.size == 1:
        return ClusterMember(source=found.source, has_own_gpus=found.has_own_gpus)
    return _met(place, found, environment.get(SECRET_VARIABLE) or None, timeout_secs)


def _listed(
    task: ClusterTask, found: LauncherInfo, environment: Mapping[str, str], timeout_secs: float
) -> ClusterMember:
    """Return a member of a cluster whose addresses are known."""
    cluster = {job: tuple(addresses) for job, addresses in task.cluster.items()}
    member = ClusterMember(cluster, task.job, task.index)
    neighbours = [
        address for addresses in cluster.values() for address in addresses if _host(address) == _host_of(member)
    ]
    here = neighbours.index(member.address) if member.address is not None else 0
    meeting = None
    if not member.is_alone:
        address = meeting_address(environment, member.workers)
        token = f"{launch_of(environment)} {' '.join(member.workers)}".strip()
        secret = environment.get(SECRET_VARIABLE) or None
        meeting = RendezvousOptions(address, member.num_workers, token, secret, timeout_secs)
    return ClusterMember(
        cluster,
        task.job,
        task.index,
        local_rank=here,
        local_size=max(1, len(neighbours)),
        source=found.source,
        has_own_gpus=found.has_own_gpus,
        meeting=meeting,
    )


def _met(place: ClusterRank, found: LauncherInfo, secret: str | None, timeout_secs: float) -> ClusterMember:
    """Return a member of a cluster whose addresses the first worker gives out."""
    if place.master is None:
        raise ConfigError(
            f"{found.source} say that this is worker {place.rank} of {place.size}, and nothing says where worker 0 is: "
            "MASTER_ADDR or MASTER_PORT is missing; expected the host of worker 0 and a port that is free there"
        )
    point = RendezvousOptions(place.master, place.size, place.token, secret, timeout_secs)
    meeting = meet(point, place.rank)
    hosts = [_host(address) for address in meeting.addresses]
    here = [rank for rank, host in enumerate(hosts) if host == hosts[place.rank]]
    return ClusterMember(
        {"worker": meeting.addresses},
        "worker",
        place.rank,
        local_rank=here.index(place.rank) if place.local_rank is None else place.local_rank,
        local_size=place.local_size or len(here),
        source=found.source,
        has_own_gpus=found.has_own_gpus,
        reservation=meeting.reservation,
        meeting=point,
    )


def _host(address: str) -> str:
    return parse_address(address, "an address")[0]


def _host_of(member: ClusterMember) -> str | None:
    return None if member.address is None else _host(member.address)
