"""``tf.contrib.cluster_resolver``: what became ``tf.distribute.cluster_resolver``."""

from tpack.tf1.name_table import look_up

_NAMES = (
    "ClusterResolver GCEClusterResolver KubernetesClusterResolver SimpleClusterResolver SlurmClusterResolver "
    "TFConfigClusterResolver TPUClusterResolver"
)

__getattr__, __dir__, __all__ = look_up(
    __name__, {name: f"tf.distribute.cluster_resolver.{name}" for name in _NAMES.split()}
)
