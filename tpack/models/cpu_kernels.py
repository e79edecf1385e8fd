"""What TensorFlow can compute on a CPU, and what a layer does where it cannot.

With oneDNN, which is on by default on most x86 machines, float32 convolutions and poolings run in both data formats,
grouped and dilated. The other kernels for the CPU, those for float64 and float16, those on other machines and those
after ``TF_ENABLE_ONEDNN_OPTS=0``, are basic ones: they know channels last only, and have no gradient of a grouped or a
dilated convolution. bfloat16 is counted among these, although oneDNN computes it on some processors: which, TensorFlow
does not tell. A graph is built for where its operations will run: on the CPU if the current device says so, or if it
says nothing and this machine has no GPU.

With a basic kernel, a layer in channels-first format transposes around its operation; a graph optimizer removes what
meets its like.
"""

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat import is_onednn_enabled
from tpack.tower.devices import list_gpus

_TO_CHANNELS_LAST = [0, 2, 3, 1]
_TO_CHANNELS_FIRST = [0, 3, 1, 2]


def has_basic_kernels(dtype: Any) -> bool:
    """Tell whether convolutions and poolings made here will run on basic CPU kernels.

    Args:
        dtype: the dtype of their inputs.
    """
    if dtype == tf.float32 and is_onednn_enabled():
        return False
    return runs_on_cpu()


def runs_on_cpu() -> bool:
    """Tell whether operations made here will run on a CPU: always where there is no GPU, else as the device says."""
    if not list_gpus():
        return True
    # Device functions can only be asked by making an operation. Nothing depends on this one, so it never runs.
    device = tf.no_op(name="where").device
    return bool(device) and tf.DeviceSpec.from_string(device).device_type == "CPU"


def to_channels_last(x: Any, name: str | None = None) -> Any:
    """Transpose a feature map from channels first."""
    return tf.transpose(x, _TO_CHANNELS_LAST, name=name)


def to_channels_first(x: Any, name: str | None = None) -> Any:
    """Transpose a feature map from channels last."""
    return tf.transpose(x, _TO_CHANNELS_FIRST, name=name)


def steps_in_format(
    make_steps: Callable[[str], list[Callable[[Any, str | None], Any]]], dtype: Any, *, channels_first: bool
) -> list[Callable[[Any, str | None], Any]]:
    """Return steps in a data format that there are kernels for.

    Args:
        make_steps: returns the steps that work in the format ``"NHWC"`` or ``"NCHW"``.
        dtype: of their input.
        channels_first: the format of their input and output.
    """
    if not channels_first:
        return make_steps("NHWC")
    if not has_basic_kernels(dtype):
        return make_steps("NCHW")
    return [to_channels_last, *make_steps("NHWC"), to_channels_first]
