"""Place of a process in its cluster, and the addresses of the others.

Jobs have TensorFlow's names: ``chief`` (also ``master``) and ``worker`` train, ``ps`` keeps variables, and there may be
an ``evaluator``. The first worker has the duties of a chief, whether or not the cluster has a job of that name.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.control.handshake import RendezvousOptions
from tpack.utils.tf_config import WORKING_JOBS
from tpack.utils.validation import check_count


@dataclass(frozen=True)
class ClusterMember:
    """A process and its place in the cluster; made by `resolve_cluster`.

    Attributes:
        cluster: {job: addresses}; empty for a process that is alone.
        job: the job of this process.
        index: its number in the job.
        local_rank: its number among the processes of its machine.
        local_size: the number of processes of its machine.
        source: the origin of the place, in words.
        has_own_gpus: whether the launcher shows this process only GPUs of its own.
        reservation: that of this process's port, where tpack chose the port.
        rendezvous: the address of worker 0's control channel; None for a process that is alone.
    """

    cluster: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    job: str = "worker"
    index: int = 0
    local_rank: int = 0
    local_size: int = 1
    source: str = "nothing"
    has_own_gpus: bool = False
    reservation: PortReservation | None = field(default=None, compare=False, repr=False)
    rendezvous: RendezvousOptions | None = field(default=None, compare=False, repr=False)

    @property
    def workers(self) -> tuple[str, ...]:
        """The addresses of the workers, the chief first; empty for a process that is alone."""
        return tuple(address for job in WORKING_JOBS for address in self.cluster.get(job, ()))

    @property
    def num_workers(self) -> int:
        """The number of workers."""
        return max(1, sum(len(self.cluster.get(job, ())) for job in WORKING_JOBS))

    @property
    def rank(self) -> int | None:
        """The rank of this process among the workers; None if it is not a worker."""
        if self.job not in WORKING_JOBS:
            return None
        return self.index + (len(self.cluster.get("chief", ())) if self.job == "worker" else 0)

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints and statistics for all."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether the cluster has no other process: no worker, no parameter server, no evaluator."""
        return self.job in WORKING_JOBS and sum(map(len, self.cluster.values())) <= 1

    @property
    def address(self) -> str | None:
        """The address of this process for the others; None without one."""
        addresses = self.cluster.get(self.job, ())
        return addresses[self.index] if self.index < len(addresses) else None

    def gpus(self, num_visible: int) -> tuple[int, ...]:
        """Return this process's share of the ``num_visible`` GPUs that the processes of its machine see.

        It is all of them for a single process of its machine, or if the launcher has assigned GPUs.

        Raises:
            ConfigError: They cannot be shared evenly.
        """
        check_count(self, "num_visible", num_visible, 0)
        if self.has_own_gpus or self.local_size == 1:
            return tuple(range(num_visible))
        share, rest = divmod(num_visible, self.local_size)
        if rest:
            raise ConfigError(
                f"{num_visible} GPUs are visible to each of the {self.local_size} processes of this machine, which "
                "cannot share them evenly: set CUDA_VISIBLE_DEVICES for each, or start another number of processes"
            )
        return tuple(range(self.local_rank * share, (self.local_rank + 1) * share))

    def tf_config(self) -> str:
        """Return the same as text for ``TF_CONFIG``."""
        return json.dumps({"cluster": self.cluster, "task": {"type": self.job, "index": self.index}})

    def __str__(self) -> str:
        if self.is_alone:
            return f"this process is the only one, as {self.source} says"
        others = f"{self.num_workers} workers" if self.num_workers > 1 else "1 worker"
        others += f" and {len(self.cluster['ps'])} ps" if self.cluster.get("ps") else ""
        name = self.job if self.rank is None else "worker"
        number = self.index if self.rank is None else self.rank
        place = f" at {self.address}" if self.address else ""
        return f"this process is {name} {number} of a cluster of {others}{place}, as {self.source} says"
