"""The public names for values of variables in files and sessions, under the module that scripts know."""

from tpack.tfutils.checkpoint_files import (
    dump_session_params,
    get_checkpoint_path,
    get_savename_from_varname,
    is_training_name,
    load_checkpoint_vars,
    save_checkpoint_vars,
)
from tpack.tfutils.session_update import SessionUpdate

load_chkpt_vars = load_checkpoint_vars
save_chkpt_vars = save_checkpoint_vars

__all__ = [
    "SessionUpdate",
    "dump_session_params",
    "get_checkpoint_path",
    "get_savename_from_varname",
    "is_training_name",
    "load_checkpoint_vars",
    "load_chkpt_vars",
    "save_checkpoint_vars",
    "save_chkpt_vars",
]
