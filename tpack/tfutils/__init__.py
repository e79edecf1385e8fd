"""Sessions, checkpoints, summaries, gradient processors and optimizers: what training needs around the model."""

from tpack.compat import get_tf_version_tuple
from tpack.tfutils import gradproc, optimizer, sesscreate, sessinit, summary, tower, varreplace
from tpack.tfutils.argscope import argscope, enable_argscope_for_function, enable_argscope_for_module, get_arg_scope
from tpack.tfutils.collect_env import collect_env_info
from tpack.tfutils.graph_lookup import get_global_step_value, get_global_step_var
from tpack.tfutils.sesscreate import (
    NewSessionCreator,
    ReuseSessionCreator,
    SessionCreatorAdapter,
    get_default_sess_config,
)
from tpack.tfutils.sessinit import (
    ChainInit,
    DictRestore,
    JustCurrentSession,
    SaverRestore,
    SaverRestoreRelaxed,
    SessionInit,
    SmartInit,
    get_model_loader,
)
from tpack.tower.context import TowerContext, get_current_tower_context
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = [
    "ChainInit",
    "DictRestore",
    "JustCurrentSession",
    "NewSessionCreator",
    "ReuseSessionCreator",
    "SaverRestore",
    "SaverRestoreRelaxed",
    "SessionCreatorAdapter",
    "SessionInit",
    "SmartInit",
    "TowerContext",
    "argscope",
    "collect_env_info",
    "enable_argscope_for_function",
    "enable_argscope_for_module",
    "get_arg_scope",
    "get_current_tower_context",
    "get_default_sess_config",
    "get_global_step_value",
    "get_global_step_var",
    "get_model_loader",
    "get_tf_version_tuple",
    "gradproc",
    "optimizer",
    "sesscreate",
    "sessinit",
    "summary",
    "tower",
    "varreplace",
]
