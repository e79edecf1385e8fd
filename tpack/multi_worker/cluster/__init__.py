"""Several processes that train together: who this one is among them, and where the others are."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "cluster_spec": ("ClusterMember",),
        "peers": ("Peers", "connect_peers"),
        "resolver": ("resolve_cluster",),
        "tpack.utils.addresses": ("expand_hosts",),
        "tpack.utils.launch_env": ("ClusterRank",),
        "tpack.utils.tf_config": ("ClusterTask",),
    },
)
