"""Horovod's names on tpack's exchange: ``import tpack.horovod as hvd`` in place of ``horovod.tensorflow``.

Scripts of TensorFlow's graph mode keep their own sessions and loops: ``tf.Session()``, ``MonitoredTrainingSession``,
Estimators. A launcher starts them as several processes (``tpack launch -n 4 train.py``); alone, they train as they are.
``docs/from_horovod.md`` has the names.
"""

from tpack.utils.lazy import LazyModule, attach

_errors = LazyModule("tpack.horovod.errors")

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "compression": ("Compression", "Compressor"),
        "errors": ("CollectiveError", "UnevenRowsError"),
        "movements": (
            "allgather",
            "allgather_object",
            "alltoall",
            "barrier",
            "broadcast",
            "broadcast_object",
            "broadcast_object_fn",
            "grouped_allgather",
            "grouped_reducescatter",
            "reducescatter",
        ),
        "operations": (
            "Adasum",
            "Average",
            "Max",
            "Min",
            "Product",
            "Sum",
            "ccl_built",
            "cuda_built",
            "ddl_built",
            "gloo_built",
            "gloo_enabled",
            "gpu_available",
            "mpi_built",
            "mpi_enabled",
            "mpi_threads_supported",
            "nccl_built",
            "rocm_built",
            "start_timeline",
            "stop_timeline",
        ),
        "optimizer": ("DistributedOptimizer",),
        "process_sets": ("ProcessSet", "global_process_set"),
        "reductions": ("allreduce", "grouped_allreduce", "join"),
        "runtime": (
            "add_process_set",
            "cross_rank",
            "cross_size",
            "get_process_set_ids_and_ranks",
            "init",
            "is_homogeneous",
            "is_initialized",
            "local_rank",
            "local_rank_op",
            "local_size",
            "local_size_op",
            "process_set_included_op",
            "rank",
            "rank_op",
            "remove_process_set",
            "shutdown",
            "size",
            "size_op",
        ),
        "variables": (
            "BroadcastGlobalVariablesHook",
            "broadcast_",
            "broadcast_global_variables",
            "broadcast_variables",
        ),
    },
    other=lambda name: _errors.other_name(name),
)
