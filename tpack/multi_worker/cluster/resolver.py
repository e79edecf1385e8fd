"""The place of this process in a cluster: from arguments, the launcher's variables, or a rendezvous."""

import functools
import os
from collections.abc import Mapping
from dataclasses import replace

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.rendezvous import meet
from tpack.multi_worker.control.handshake import SECRET_VARIABLE, RendezvousOptions
from tpack.utils import logger
from tpack.utils.addresses import parse_address
from tpack.utils.launch_env import ClusterRank, LauncherInfo, control_address, launch_token, read_launch_env
from tpack.utils.tf_config import ClusterTask
from tpack.utils.validation import check_arguments, check_number


@check_arguments
def resolve_cluster(
    given: ClusterTask | ClusterRank | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    timeout_secs: float = 300.0,
) -> ClusterMember:
    """Return the place of this process in its cluster, and log it.

    It comes from the argument; else from the environment: ``TF_CONFIG``, ``RANK`` and ``WORLD_SIZE`` of torchrun,
    Slurm, Open MPI, other MPIs; else the process is alone. Where only ranks are known, the processes meet at
    ``MASTER_ADDR`` and ``MASTER_PORT``: all have to call this, once.

    Args:
        given: the place of this process, if it is known.
        environment: its variables; None are those of the process.
        timeout_secs: the timeout of the rendezvous.

    Raises:
        ConfigError: A variable is malformed, or two contradict each other; the message shows it.
        ClusterError: Other processes are missing, belong to another job, or have another secret.

    Example:
        ``member = resolve_cluster()``, and then ``if member.is_chief: ...``
    """
    limit = check_number("resolve_cluster", "timeout_secs", timeout_secs, 0, is_low_allowed=False)
    variables = os.environ if environment is None else environment
    found = read_launch_env(variables) if given is None else LauncherInfo(given, "its arguments")
    if found.incomplete:
        raise ConfigError(f"{found.incomplete}; or neither, for a process that is alone")
    place = found.place
    if isinstance(place, ClusterTask):
        member = _listed(place, found, variables, limit)
    elif place is None or place.size == 1:
        member = ClusterMember(source=found.source, has_own_gpus=found.has_own_gpus)
    else:
        member = _met(place, found, variables.get(SECRET_VARIABLE) or None, limit)
    logger.info("Cluster: %s.", member)
    return member


def own_place() -> ClusterMember:
    """Return the place of this process, which is resolved once: a rendezvous cannot be repeated.

    Raises:
        ConfigError, ClusterError: As `resolve_cluster`.
    """
    return _place_of(os.getpid())


@functools.cache
def _place_of(pid: int) -> ClusterMember:
    return resolve_cluster()


def _listed(
    task: ClusterTask, found: LauncherInfo, environment: Mapping[str, str], timeout_secs: float
) -> ClusterMember:
    cluster = {job: tuple(addresses) for job, addresses in task.cluster.items()}
    member = ClusterMember(cluster, task.job, task.index, source=found.source, has_own_gpus=found.has_own_gpus)
    if member.address is not None:
        host = _host(member.address)
        here = [address for addresses in cluster.values() for address in addresses if _host(address) == host]
        member = replace(member, local_rank=here.index(member.address), local_size=len(here))
    if member.is_alone:
        return member
    token = f"{launch_token(environment)} {' '.join(member.workers)}".strip()
    secret = environment.get(SECRET_VARIABLE) or None
    address = control_address(environment, member.workers)
    return replace(member, rendezvous=RendezvousOptions(address, member.num_workers, token, secret, timeout_secs))


def _met(place: ClusterRank, found: LauncherInfo, secret: str | None, timeout_secs: float) -> ClusterMember:
    """Return a member of a cluster whose addresses the first worker distributes."""
    if place.master is None:
        raise ConfigError(
            f"{found.source} got worker {place.rank} of {place.size}, and MASTER_ADDR or MASTER_PORT is missing: "
            "expected the host of worker 0 and a port that is free there"
        )
    point = RendezvousOptions(place.master, place.size, place.token, secret, timeout_secs)
    met = meet(point, place.rank)
    hosts = [_host(address) for address in met.addresses]
    here = [rank for rank, host in enumerate(hosts) if host == hosts[place.rank]]
    return ClusterMember(
        {"worker": met.addresses},
        "worker",
        place.rank,
        local_rank=here.index(place.rank) if place.local_rank is None else place.local_rank,
        local_size=place.local_size or len(here),
        source=found.source,
        has_own_gpus=found.has_own_gpus,
        reservation=met.reservation,
        rendezvous=point,
    )


def _host(address: str) -> str:
    return parse_address("ClusterMember", "an address", address)[0]
