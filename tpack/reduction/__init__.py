"""Gradient reduction: the gradients of K towers become their sum or mean in every tower.

Every algorithm is a `Reducer`, and so are wrappers such as `GradientPackingReducer` and the measured choice
`AutoReducer`. The package works without a trainer.
"""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "algorithms.adasum": ("AdasumReducer",),
        "algorithms.collective": ("CollectiveReducer",),
        "algorithms.composite": ("CompositeReducer", "HierarchicalReducer"),
        "algorithms.halving_doubling": ("HalvingDoublingReducer",),
        "algorithms.nccl": ("NcclReducer",),
        "algorithms.one_device": ("IdentityReducer", "OneDeviceReducer", "RoundRobinReducer"),
        "algorithms.ring": ("RingReducer",),
        "algorithms.shuffle": ("CpuShuffleReducer", "ShuffleReducer"),
        "autotune.autotune": ("AutoReducer", "ChoiceCache", "MeasuredChoice", "choose_by_measurement"),
        "modes": (
            "ColocatedReduction",
            "REDUCTION_MODES",
            "aggregate_grads_colocate",
            "allreduce_grads",
            "allreduce_grads_hierarchical",
            "allreduce_grads_naive",
            "reducer_for_mode",
        ),
        "autotune.measure": ("Measurement", "MeasuringOptions", "TrafficReport", "count_traffic"),
        "autotune.topology": ("choose_the_best",),
        "base": ("Reducer", "ReducerWrapper"),
        "cross_replica": ("mean_over_towers", "stack_over_towers", "sum_over_towers"),
        "gradients": ("merge_grad_list", "split_grad_list"),
        "names": ("ReducerChoice", "make_reducer"),
        "spec": ("AllReduceSpec", "parse_all_reduce_spec", "reducer_for_spec"),
        "sums": ("copy_to_each", "on_device_of", "sum_column"),
        "wrappers.packers": (
            "AggregateSmallTensorPacker",
            "AggregateSmallTensorPackingReducer",
            "BucketPacker",
            "BucketReducer",
            "ConcatAndSplitPacker",
            "ConcatAndSplitPackingReducer",
        ),
        "wrappers.splitting": ("ShardingReducer", "SplitBySizeReducer"),
        "wrappers.conversion": ("DensifyReducer", "WireDtypeReducer"),
        "wrappers.gradient_packer": ("GradientPacker", "GradientPackingReducer"),
        "tpack.tower.grads": ("ReduceOp",),
    },
)
