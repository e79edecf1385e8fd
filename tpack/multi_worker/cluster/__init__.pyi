"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.multi_worker.cluster.cluster_spec import ClusterMember as ClusterMember
from tpack.multi_worker.cluster.peers import Peers as Peers
from tpack.multi_worker.cluster.peers import connect_peers as connect_peers
from tpack.multi_worker.cluster.resolver import resolve_cluster as resolve_cluster
from tpack.utils.launch_env import ClusterRank as ClusterRank
from tpack.utils.launch_env import ClusterTask as ClusterTask
from tpack.utils.launch_env import expand_hosts as expand_hosts
