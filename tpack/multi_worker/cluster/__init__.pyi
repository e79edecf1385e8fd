"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.multi_worker.cluster.cluster_spec import ClusterMember as ClusterMember
from tpack.multi_worker.cluster.peers import Peers as Peers
from tpack.multi_worker.cluster.peers import connect_peers as connect_peers
from tpack.multi_worker.cluster.resolver import resolve_cluster as resolve_cluster
from tpack.utils.addresses import expand_hosts as expand_hosts
from tpack.utils.launch_env import ClusterRank as ClusterRank
from tpack.utils.tf_config import ClusterTask as ClusterTask
