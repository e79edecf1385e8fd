"""Replication of a model over devices, and reduction of its gradients."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "accumulation": ("Application", "apply_every"),
        "base": ("BuildResult", "GraphBuilder", "StepGradients", "SyncOp"),
        "compiled": ("CompilePolicy",),
        "cost": ("GradientOptions", "make_grad_fn"),
        "local_steps": ("LocalSteps", "LocalStepsBuilder"),
        "model_desc": ("ModelDesc", "ModelDescBase"),
        "precision": ("LossScaling", "PrecisionPolicy"),
        "predict": ("build_predict_tower",),
        "replicated": ("SyncMultiGPUReplicatedBuilder", "apply_in_replicas", "build_replicas", "copy_to_replicas"),
        "sharded": ("ShardedReplicatedBuilder",),
        "towers": (
            "AsyncMultiGPUBuilder",
            "BuiltTowers",
            "DataParallelBuilder",
            "SimpleBuilder",
            "SyncMultiGPUParameterServerBuilder",
            "build_towers",
        ),
        "tpack.reduction.modes": (
            "aggregate_grads_colocate",
            "allreduce_grads",
            "allreduce_grads_hierarchical",
            "allreduce_grads_naive",
        ),
        "tpack.reduction.gradients": ("merge_grad_list", "split_grad_list"),
        "tpack.reduction.wrappers.gradient_packer": ("GradientPacker",),
        "tpack.tower.devices": ("LeastLoadedDeviceSetter",),
        "tpack.tower.getters": ("OverrideCachingDevice", "override_to_local_variable"),
    },
)
