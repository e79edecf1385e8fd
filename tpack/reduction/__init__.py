"""Gradient reduction: K towers' gradients to their sum or mean in every tower.

Every algorithm is a `Reducer`; a wrapper such as `GradientPackingReducer` is one too, and so is the choice of the
fastest one, `AutoReducer`. This package needs no trainer.
"""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "algorithms.collective": ("CollectiveReducer",),
        "algorithms.composite": ("CompositeReducer",),
        "algorithms.halving_doubling": ("HalvingDoublingReducer",),
        "algorithms.hierarchical": ("HierarchicalReducer",),
        "algorithms.nccl": ("NcclReducer",),
        "algorithms.one_device": (
            "IdentityReducer",
            "OneDeviceReducer",
            "RoundRobinReducer",
        ),
        "algorithms.ring": ("RingReducer",),
        "algorithms.shuffle": (
            "CpuShuffleReducer",
            "ShuffleReducer",
        ),
        "base": (
            "Reducer",
            "ReducerWrapper",
        ),
        "autotune.heuristic": ("ReducerChoice",),
        "autotune.topology": ("choose_the_best",),
        "autotune.autotune": (
            "AutoReducer",
            "ChoiceCache",
            "MeasuredChoice",
            "choose_by_measurement",
        ),
        "autotune.measure": (
            "Measurement",
            "MeasuringOptions",
        ),
        "functions": (
            "ColocatedReduction",
            "aggregate_grads_colocate",
            "allreduce_grads",
            "allreduce_grads_hierarchical",
            "allreduce_grads_naive",
        ),
        "gradients": (
            "merge_grad_list",
            "split_grad_list",
        ),
        "modes": (
            "REDUCTION_MODES",
            "reducer_for_mode",
        ),
        "names": ("make_reducer",),
        "cross_replica": (
            "mean_over_towers",
            "stack_over_towers",
            "sum_over_towers",
        ),
        "spec": (
            "AllReduceSpec",
            "parse_all_reduce_spec",
            "reducer_for_spec",
        ),
        "sums": (
            "copy_to_each",
            "on_device_of",
            "sum_column",
        ),
        "comm_volume": (
            "TrafficReport",
            "count_traffic",
        ),
        "wrappers.buckets": (
            "BucketPacker",
            "BucketReducer",
        ),
        "wrappers.by_size": ("SplitBySizeReducer",),
        "wrappers.densify": ("DensifyReducer",),
        "wrappers.gradient_packer": (
            "GradientPacker",
            "GradientPackingReducer",
        ),
        "wrappers.packers": (
            "AggregateSmallTensorPacker",
            "AggregateSmallTensorPackingReducer",
            "ConcatAndSplitPacker",
            "ConcatAndSplitPackingReducer",
        ),
        "wrappers.sharding": ("ShardingReducer",),
        "wrappers.compression": ("WireDtypeReducer",),
        "tpack.tower.grads": ("ReduceOp",),
    },
)
