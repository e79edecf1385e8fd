"""Reductions of collective operations, and Horovod's questions about a build."""

import tensorflow.compat.v1 as tf

from tpack.tower.devices import list_gpus
from tpack.utils.validation import check_arguments


class ReduceOperation:
    """Reduction of the tensors of all workers to one.

    Args:
        name: the name.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


Average = ReduceOperation("Average")
Sum = ReduceOperation("Sum")
Adasum = ReduceOperation("Adasum")
Min = ReduceOperation("Min")
Max = ReduceOperation("Max")
Product = ReduceOperation("Product")


@check_arguments
def mpi_built(verbose: bool = False) -> bool:
    """Return False: tpack exchanges through TensorFlow's servers."""
    return False


def mpi_enabled() -> bool:
    """Return False, as `mpi_built`."""
    return False


def mpi_threads_supported() -> bool:
    """Return False: there is no MPI that could forbid threads. mpi4py, if a script uses it, works beside."""
    return False


@check_arguments
def gloo_built(verbose: bool = False) -> bool:
    """Return True: like gloo, the exchange needs neither MPI nor NCCL, and works on CPUs."""
    return True


def gloo_enabled() -> bool:
    """Return True, as `gloo_built`."""
    return True


@check_arguments
def nccl_built(verbose: bool = False) -> int:
    """Return 0: between workers nothing travels through NCCL."""
    return 0


@check_arguments
def ddl_built(verbose: bool = False) -> bool:
    """Return False."""
    return False


@check_arguments
def ccl_built(verbose: bool = False) -> bool:
    """Return False."""
    return False


@check_arguments
def cuda_built(verbose: bool = False) -> bool:
    """Return whether this TensorFlow was built with CUDA."""
    return bool(tf.test.is_built_with_cuda())


@check_arguments
def rocm_built(verbose: bool = False) -> bool:
    """Return whether this TensorFlow was built with ROCm."""
    return bool(tf.test.is_built_with_rocm())


@check_arguments
def gpu_available(ext_base_name: str = "tensorflow", verbose: bool = False) -> bool:
    """Return whether this machine has a GPU that TensorFlow uses."""
    return bool(list_gpus())


@check_arguments
def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Raise an error, since steps are profiled as a whole.

    Raises:
        NotImplementedError: Always; it says what to use.
    """
    raise NotImplementedError(_NO_TIMELINE)


def stop_timeline() -> None:
    """Raise an error, as `start_timeline`.

    Raises:
        NotImplementedError: Always; it says what to use.
    """
    raise NotImplementedError(_NO_TIMELINE)


_NO_TIMELINE = (
    "tpack.horovod has no timeline of its own: use tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE) in session.run, "
    "or the callback GraphProfiler; both show each exchange between the workers"
)
