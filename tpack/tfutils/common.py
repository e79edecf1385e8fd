"""The public names around sessions, the global step and names in a graph, under scripts' module name."""

from tpack.compat.runtime import get_tf_version_tuple
from tpack.tfutils.graph_lookup import (
    get_global_step_value,
    get_global_step_var,
    get_op_or_tensor_by_name,
    get_tensors_by_names,
    gpu_available_in_session,
)
from tpack.tfutils.sesscreate import get_default_sess_config
from tpack.tower.names import op_and_tensor_name as get_op_tensor_name
from tpack.utils.renames import on_unknown_name

__getattr__ = on_unknown_name(__name__)

__all__ = [
    "get_default_sess_config",
    "get_global_step_value",
    "get_global_step_var",
    "get_op_or_tensor_by_name",
    "get_op_tensor_name",
    "get_tensors_by_names",
    "get_tf_version_tuple",
    "gpu_available_in_session",
]
