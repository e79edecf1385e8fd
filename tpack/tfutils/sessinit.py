"""The public names for initialising sessions, in the one module where scripts look for them."""

from tpack.tfutils.restore import DictRestore, SaverRestore, SaverRestoreRelaxed
from tpack.tfutils.session_init import ChainInit, JustCurrentSession, SessionInit
from tpack.tfutils.smart_init import SmartInit, get_model_loader

__all__ = [
    "ChainInit",
    "DictRestore",
    "JustCurrentSession",
    "SaverRestore",
    "SaverRestoreRelaxed",
    "SessionInit",
    "SmartInit",
    "get_model_loader",
]
