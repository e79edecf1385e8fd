"""Sessions, checkpoints, summaries, gradient processors and optimizers: what training needs around the model."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "argscope": ("argscope", "enable_argscope_for_function", "enable_argscope_for_module", "get_arg_scope"),
        "collect_env": ("collect_env_info",),
        "gradproc": (),
        "graph_lookup": ("get_global_step_value", "get_global_step_var"),
        "optimizer": (),
        "sesscreate": (
            "sesscreate=",
            "NewSessionCreator",
            "ReuseSessionCreator",
            "SessionCreatorAdapter",
            "get_default_sess_config",
        ),
        "sessinit": (
            "sessinit=",
            "ChainInit",
            "DictRestore",
            "JustCurrentSession",
            "SaverRestore",
            "SaverRestoreRelaxed",
            "SessionInit",
            "SmartInit",
            "get_model_loader",
        ),
        "summary": (),
        "tower": (),
        "varreplace": (),
        "tpack.compat": ("get_tf_version_tuple",),
        "tpack.tower.context": ("TowerContext", "get_current_tower_context"),
    },
)
