"""Training in several processes on TensorFlow's own runtime: servers, and what workers exchange through them."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "all_reduce": ("Exchange", "all_reduce_between_workers", "copy_from_worker"),
        "codecs.base": ("Cast", "Codec"),
        "codecs.memory": ("ErrorFeedback", "Memory", "MomentumCorrection", "MomentumFeedback"),
        "codecs.names": ("make_exchange",),
        "codecs.power_sgd": ("PowerSGD",),
        "codecs.quantization": ("Int8", "OneBit"),
        "codecs.sparsification": ("TopK",),
        "memory_saver": ("MemorySaver",),
        "tables.embedding": ("sharded_embedding",),
        "uneven": ("UnevenData",),
        "worker_group": ("WorkerGroup",),
        "servers": ("WorkerServer", "WorkerSessionCreator", "start_server", "task_device"),
    },
)
