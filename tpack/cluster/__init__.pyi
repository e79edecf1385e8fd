"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.cluster.member import ClusterMember as ClusterMember
from tpack.cluster.member import ClusterRank as ClusterRank
from tpack.cluster.member import ClusterTask as ClusterTask
from tpack.cluster.peers import Peers as Peers
from tpack.cluster.peers import connect_peers as connect_peers
from tpack.cluster.resolver import resolve_cluster as resolve_cluster
from tpack.cluster.slurm import expand_hosts as expand_hosts
