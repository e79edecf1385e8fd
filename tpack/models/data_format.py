"""The two data formats of feature maps, and which of them the kernels support.

Layers accept the names of Keras (``"channels_last"``, ``"channels_first"``) and of TensorFlow (``"NHWC"``, ``"NCHW"``).

A graph is built for the device that its operations will run on: the CPU if the current device says so, or if it says
nothing and the machine has no GPU. With oneDNN, the default on most x86 machines, float32 convolutions and poolings run
there in both formats, grouped and dilated, except in loops. All other CPU kernels (float64, float16, other machines,
``TF_ENABLE_ONEDNN_OPTS=0``) are basic: channels last only (tensorflow/tensorflow#46623), and without gradients of
grouped (tensorflow/tensorflow#50397) and dilated convolutions (tensorflow/tensorflow#28264). bfloat16 counts as basic:
oneDNN supports it on some processors, but TensorFlow does not tell which.

With a basic kernel, a channels-first layer transposes around its operation; a graph optimizer removes pairs of
transpositions that cancel out.
"""

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import is_in_loop_or_function
from tpack.compat.runtime import is_onednn_enabled
from tpack.models.steps import Step
from tpack.tower.devices import list_gpus
from tpack.utils.argtools import get_data_format

CHANNELS_FIRST = "channels_first"
CHANNELS_LAST = "channels_last"
_TO_CHANNELS_LAST = [0, 2, 3, 1]
_TO_CHANNELS_FIRST = [0, 3, 1, 2]


def is_channels_first(data_format: str) -> bool:
    """Tell whether the channels come before height and width.

    Raises:
        ConfigError: The data format is unknown.
    """
    return get_data_format(data_format) == CHANNELS_FIRST


def channel_axis(data_format: str, rank: int = 4) -> int:
    """Return the axis of the channels, counted from the front; for two dimensions always 1."""
    return 1 if rank == 2 or is_channels_first(data_format) else rank - 1


def spatial_axes(data_format: str) -> list[int]:
    """Return the axes of height and width of a feature map."""
    return [2, 3] if is_channels_first(data_format) else [1, 2]


def sizes_of(x: tf.Tensor) -> list[int | tf.Tensor]:
    """Return the sizes of a tensor of known rank: numbers where known, else scalar tensors."""
    known = x.shape.as_list()
    if None not in known:
        return list(known)
    dynamic = tf.shape(x)
    return [n if n is not None else dynamic[axis] for axis, n in enumerate(known)]


def pad(x: tf.Tensor, pairs: Sequence[Sequence[int]], data_format: str) -> tf.Tensor:
    """Pad a feature map in the format ``"NHWC"`` or ``"NCHW"`` with zeros, by ``[[top, bottom], [left, right]]``."""
    none = [0, 0]
    return tf.pad(x, [none, none, *pairs] if data_format == "NCHW" else [none, *pairs, none])


def has_basic_kernels(dtype: tf.DType) -> bool:
    """Tell whether convolutions and poolings of a dtype, made here, will run on basic CPU kernels."""
    if dtype == tf.float32 and is_onednn_enabled() and not is_in_loop_or_function(tf.get_default_graph()):
        return False
    return runs_on_cpu()


def runs_on_cpu() -> bool:
    """Tell whether operations made here will run on a CPU: always without a GPU, else by the current device."""
    if not list_gpus():
        return True
    # Device functions apply to new operations only. Nothing depends on this one, so it never runs.
    device = tf.no_op(name="where").device
    return bool(device) and tf.DeviceSpec.from_string(device).device_type == "CPU"


def to_channels_last(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Transpose a feature map from channels first."""
    return tf.transpose(x, _TO_CHANNELS_LAST, name=name)


def to_channels_first(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Transpose a feature map from channels last."""
    return tf.transpose(x, _TO_CHANNELS_FIRST, name=name)


def steps_in_format(make_steps: Callable[[str], list[Step]], dtype: tf.DType, *, channels_first: bool) -> list[Step]:
    """Return steps in a data format that the kernels support.

    Args:
        make_steps: returns the steps for the format ``"NHWC"`` or ``"NCHW"``.
        dtype: the dtype of their input.
        channels_first: the format of their input and output.
    """
    if not channels_first:
        return make_steps("NHWC")
    if not has_basic_kernels(dtype):
        return make_steps("NCHW")
    return [to_channels_last, *make_steps("NHWC"), to_channels_first]
