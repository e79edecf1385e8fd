"""Which GPUs this process may use, found out without starting any of them."""

import shutil
import subprocess
from collections.abc import Iterable
from contextlib import AbstractContextManager

from tpack.errors import DependencyError, DeviceError
from tpack.utils.env import change_env
from tpack.utils.nvml import NVMLContext, visible_gpu_names

__all__ = ["change_gpu", "get_num_gpu", "get_nr_gpu"]

_TIMEOUT_SECS = 30.0


def change_gpu(val: int | str | Iterable[int | str] | None) -> AbstractContextManager[None]:
    """Set ``CUDA_VISIBLE_DEVICES`` in a ``with`` block, and bring it back after it.

    CUDA reads the variable once, when it starts: it matters to child processes, and here before the first session.

    Args:
        val: the number of a GPU, several of them, or the variable's text; None, -1 or none of them hides all GPUs.

    Example:
        with change_gpu([0, 2]):
            process.start()
    """
    if val is None:
        return change_env("CUDA_VISIBLE_DEVICES", "-1")
    names = [str(val)] if isinstance(val, int | str) else [str(each) for each in val]
    return change_env("CUDA_VISIBLE_DEVICES", ",".join(names) or "-1")


def get_num_gpu() -> int:
    """Return the number of GPUs that this process may use.

    ``CUDA_VISIBLE_DEVICES`` says it if it is set. Otherwise NVIDIA's library is asked, or else ``nvidia-smi``; a
    machine with neither has none. TensorFlow is not asked, since it would start the GPUs.
    """
    names = visible_gpu_names()
    if names is not None:
        return len(names)
    try:
        with NVMLContext() as nvml:
            return nvml.num_devices()
    except (DependencyError, DeviceError):
        return _count_by_command()


get_nr_gpu = get_num_gpu


def _count_by_command() -> int:
    """Count the lines about GPUs that ``nvidia-smi -L`` writes; 0 if there is no such command or it fails."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return 0
    try:
        done = subprocess.run([command, "-L"], capture_output=True, text=True, timeout=_TIMEOUT_SECS, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())
