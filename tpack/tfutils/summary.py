"""The public names for summaries, in the one module where scripts look for them."""

from tpack.tfutils.moving_summary import add_moving_summary
from tpack.tfutils.summary_proto import create_image_summary, create_scalar_summary
from tpack.tfutils.tensor_summary import add_activation_summary, add_param_summary, add_tensor_summary

__all__ = [
    "add_activation_summary",
    "add_moving_summary",
    "add_param_summary",
    "add_tensor_summary",
    "create_image_summary",
    "create_scalar_summary",
]
