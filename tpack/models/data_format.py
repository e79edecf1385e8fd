"""The two data formats of feature maps: where the channels are, and which format there are kernels for.

The formats go by the names of Keras (``"channels_last"``, ``"channels_first"``) and by those of TensorFlow (``"NHWC"``,
``"NCHW"``); layers take either.

A graph is built for where its operations will run: on the CPU if the current device says so, or if it says nothing and
this machine has no GPU. With oneDNN, which is on by default on most x86 machines, float32 convolutions and poolings run
there in both formats, grouped and dilated, unless they are in a loop. The other kernels for the CPU, those for float64
and float16, those on other machines and those after ``TF_ENABLE_ONEDNN_OPTS=0``, are basic ones: they know channels
last only (tensorflow/tensorflow#46623), and have no gradient of a grouped (tensorflow/tensorflow#50397) or a dilated
convolution (tensorflow/tensorflow#28264). bfloat16 is counted among these, although oneDNN computes it on some
processors: which, TensorFlow does not tell.

With a basic kernel, a layer in channels-first format transposes around its operation; a graph optimizer removes what
meets its like.
"""

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from tpack.compat import is_in_loop_or_function, is_onednn_enabled
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
        ConfigError: It is not the name of a data format.
    """
    return get_data_format(data_format) == CHANNELS_FIRST


def channel_axis(data_format: str, rank: int = 4) -> int:
    """Return the axis of the channels, counted from the front; of two dimensions it is always the second."""
    return 1 if rank == 2 or is_channels_first(data_format) else rank - 1


def spatial_axes(data_format: str) -> list[int]:
    """Return the axes of height and width of a feature map."""
    return [2, 3] if is_channels_first(data_format) else [1, 2]


def sizes_of(x: tf.Tensor) -> list[int | tf.Tensor]:
    """Return the sizes of a tensor of known rank: numbers where they are known, else scalar tensors."""
    known = x.shape.as_list()
    if None not in known:
        return list(known)
    dynamic = tf.shape(x)
    return [n if n is not None else dynamic[axis] for axis, n in enumerate(known)]


def pad(x: tf.Tensor, pairs: Sequence[Sequence[int]], data_format: str) -> tf.Tensor:
    """Pad a feature map with zeros.

    Args:
        x: the feature map.
        pairs: ``[[top, bottom], [left, right]]``.
        data_format: ``"NHWC"`` or ``"NCHW"``.
    """
    none = [0, 0]
    return tf.pad(x, [none, none, *pairs] if data_format == "NCHW" else [none, *pairs, none])


def has_basic_kernels(dtype: tf.DType) -> bool:
    """Tell whether convolutions and poolings made here will run on basic CPU kernels.

    Args:
        dtype: the dtype of their inputs.
    """
    if dtype == tf.float32 and is_onednn_enabled() and not is_in_loop_or_function(tf.get_default_graph()):
        return False
    return runs_on_cpu()


def runs_on_cpu() -> bool:
    """Tell whether operations made here will run on a CPU: always where there is no GPU, else as the device says."""
    if not list_gpus():
        return True
    # Device functions can only be asked by making an operation. Nothing depends on this one, so it never runs.
    device = tf.no_op(name="where").device
    return bool(device) and tf.DeviceSpec.from_string(device).device_type == "CPU"


def to_channels_last(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Transpose a feature map from channels first."""
    return tf.transpose(x, _TO_CHANNELS_LAST, name=name)


def to_channels_first(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Transpose a feature map from channels last."""
    return tf.transpose(x, _TO_CHANNELS_FIRST, name=name)


def steps_in_format(make_steps: Callable[[str], list[Step]], dtype: tf.DType, *, channels_first: bool) -> list[Step]:
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
