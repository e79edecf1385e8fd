"""A description of the machine and the packages for bug reports."""

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator

import tensorflow.compat.v1 as tf
from tabulate import tabulate

from tpack.errors import DependencyError, DeviceError
from tpack.utils.gpu import NVMLContext, get_num_gpu
from tpack.version import __version__

_PACKAGES = ("numpy", "keras", "tf_keras", "msgpack", "opencv-python-headless", "opencv-python", "pyzmq", "psutil")
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "TF_CPP_MIN_LOG_LEVEL",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_USE_LEGACY_KERAS",
    "XLA_FLAGS",
)


def collect_env_info() -> str:
    """Return a table of versions, processors, GPUs and environment variables, as text for a bug report.

    GPUs come from NVIDIA's library and not from TensorFlow, which would take their memory.
    """
    return tabulate(
        [*_software(), *_hardware(), *((name, os.environ[name]) for name in _VARIABLES if name in os.environ)],
        tablefmt="simple",
        disable_numparse=True,
    )


def _software() -> Iterator[tuple[str, str]]:
    yield "tpack", __version__
    yield "Python", sys.version.replace("\n", "")
    yield "TensorFlow", f"{tf.version.VERSION} ({tf.version.GIT_VERSION})"
    build = tf.sysconfig.get_build_info()
    for key in ("cuda_version", "cudnn_version"):
        if build.get(key):
            yield f"TensorFlow's {key.removesuffix('_version')}", str(build[key])
    for package in _PACKAGES:
        try:
            yield package, importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue


def _hardware() -> Iterator[tuple[str, str]]:
    yield "Platform", platform.platform()
    yield "CPUs", str(os.cpu_count())
    try:
        with NVMLContext() as nvml:
            for index, gpu in enumerate(nvml.devices()):
                yield f"GPU {index}", f"{gpu.name()}, {gpu.memory()['total'] / 2**30:.1f} GiB"
    except (DependencyError, DeviceError) as error:
        number = get_num_gpu()
        yield "GPUs", f"{number}; more about them: {error}" if number else "none"
