"""Several processes that train together: who this one is among them, and where the others are."""

from tpack.cluster.member import ClusterMember, ClusterRank, ClusterTask
from tpack.cluster.peers import Peers, connect_peers
from tpack.cluster.resolver import resolve_cluster
from tpack.cluster.slurm import expand_hosts
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = [
    "ClusterMember",
    "ClusterRank",
    "ClusterTask",
    "Peers",
    "connect_peers",
    "expand_hosts",
    "resolve_cluster",
]
