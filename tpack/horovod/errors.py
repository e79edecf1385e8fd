"""Errors of collective operations, which Horovod's scripts and TensorFlow's hooks know too."""

import importlib
import importlib.util
from types import ModuleType

import tensorflow.compat.v1 as tf

from tpack.errors import ClusterError, ConfigError, MissingNameError
from tpack.utils.validation import check_arguments

_MISSING = {
    "DistributedGradientTape": "hvd.DistributedOptimizer in a graph: tpack is for TensorFlow's graph mode",
    "PartialDistributedGradientTape": "hvd.DistributedOptimizer in a graph: tpack is for TensorFlow's graph mode",
    "PartialDistributedOptimizer": "hvd.DistributedOptimizer, and the optimizer itself for variables of one worker",
    "SyncBatchNormalization": "tpack.models.BatchNorm(sync_statistics='workers') with MultiWorkerTrainerReplicated",
    "elastic": "tpack launch --restarts and --min-workers, and AutoResumeTrainConfig",
    "run": "tpack launch -n 4 train.py",
}


@check_arguments
class CollectiveError(tf.errors.FailedPreconditionError, ClusterError):
    """Workers run collective operations that do not fit each other, or wait for one that does not come.

    It is the class of TensorFlow that Horovod raises, and a `ClusterError`.
    """

    def __init__(self, message: str) -> None:
        super().__init__(None, None, message)


@check_arguments
class UnevenRowsError(tf.errors.InvalidArgumentError, ConfigError):
    """Rows cannot be dealt out to the workers. It is the class of TensorFlow that Horovod raises."""

    def __init__(self, message: str) -> None:
        super().__init__(None, None, message)


def other_name(name: str) -> ModuleType:
    """Return a module of `tpack.horovod`, or raise an error for a name that it does not have.

    Raises:
        MissingNameError: It is one of Horovod's; the message says what to use.
        AttributeError: It is none.
    """
    if name in _MISSING:
        raise MissingNameError(f"tpack.horovod has no {name}: use {_MISSING[name]}")
    if importlib.util.find_spec(f"tpack.horovod.{name}") is not None:
        return importlib.import_module(f"tpack.horovod.{name}")
    raise AttributeError(f"module 'tpack.horovod' has no attribute {name!r}")
