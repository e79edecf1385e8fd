"""Renamed or removed names of models, trainers, inputs, callbacks and checkpoints."""

import os
import re
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.monitors.writers import ScalarPrinter, TFEventWriter
from tpack.errors import ConfigError
from tpack.input_source.staging import StagingInput
from tpack.legacy.code.renamed import older_class, older_function
from tpack.legacy.table import say
from tpack.tfutils.graph_lookup import get_global_step_value
from tpack.tfutils.sessinit import DictRestore, JustCurrentSession, SaverRestore, SessionInit
from tpack.tfutils.varmanip import load_checkpoint_vars
from tpack.tower.names import op_and_tensor_name
from tpack.train.trainers import SimpleTrainer
from tpack.utils import logger
from tpack.utils.lazy import LazyModule
from tpack.utils.renames import takes_config

FeedfreeInferenceRunner = older_class("FeedfreeInferenceRunner", InferenceRunner, module=__name__)
NewSession = older_class("NewSession", JustCurrentSession, module=__name__)
ParamRestore = older_class("ParamRestore", DictRestore, module=__name__)
StagingInputWrapper = older_class("StagingInputWrapper", StagingInput, module=__name__)
StatPrinter = older_class("StatPrinter", ScalarPrinter, module=__name__)
TFSummaryWriter = older_class("TFSummaryWriter", TFEventWriter, module=__name__)
TrainingMonitor = older_class("TrainingMonitor", MonitorBase, module=__name__)
Triggerable = older_class("Triggerable", Callback, module=__name__)
QueueInputTrainer = takes_config(older_class("QueueInputTrainer", SimpleTrainer, module=__name__))
SimpleFeedfreeTrainer = takes_config(older_class("SimpleFeedfreeTrainer", SimpleTrainer, module=__name__))

get_op_tensor_name = op_and_tensor_name


_HOROVOD = LazyModule("tpack.horovod.trainer")


def __getattr__(name: str) -> Any:
    """Return tensorpack's trainers on Horovod, whose module not many scripts need."""
    if name in ("BytePSTrainer", "HorovodTrainer"):
        return getattr(_HOROVOD, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class InputDesc(tf.TensorSpec):
    """An input of a model: the older form of ``tf.TensorSpec``, with the dtype first.

    Args:
        type: the dtype.
        shape: its sizes, None where unknown.
        name: the name of the input.
    """

    __slots__ = ()

    def __init__(self, type: tf.DType, shape: Sequence[int | None], name: str) -> None:
        say("InputDesc(type, shape, name)", "tf.TensorSpec(shape, type, name)")
        super().__init__(shape, type, name)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return InputDesc, (self.dtype, self.shape, self.name)

    @property
    def type(self) -> tf.DType:
        """The dtype."""
        return self.dtype

    def build_placeholder(self) -> tf.Tensor:
        """Return a new placeholder for it."""
        with tf.name_scope(None):
            return tf.placeholder(self.dtype, self.shape, self.name)

    def build_placeholder_reuse(self) -> tf.Tensor:
        """Return the placeholder for it in the current graph, made at the first call."""
        key = f"tpack_placeholder_{self.name}"
        if not tf.get_collection_ref(key):
            tf.add_to_collection(key, self.build_placeholder())
        placeholder: tf.Tensor = tf.get_collection_ref(key)[0]
        return placeholder

    @staticmethod
    def from_placeholder(placeholder: tf.Tensor) -> "InputDesc":
        """Return the description of a placeholder."""
        return InputDesc(placeholder.dtype, placeholder.shape, placeholder.op.name)


def EnqueueThread(queue: tf.QueueBase, ds: Any, placehdrs: Any) -> NoReturn:  # noqa: N802
    """Raise an error: a `QueueInput` makes its thread itself.

    Raises:
        ConfigError: Always; it names another way to choose the queue.
    """
    raise ConfigError(
        "EnqueueThread is not in tpack, where QueueInput makes its thread itself; use QueueInput(ds, "
        "queue=tf.FIFOQueue(capacity, dtypes)) for a queue of another kind or capacity"
    )


@older_function("TryResumeTraining()", "AutoResumeTrainConfig, which resumes epochs and data too")
def TryResumeTraining() -> SessionInit:  # noqa: N802
    """Return a restorer of the newest checkpoint of the log directory, or one that changes nothing."""
    directory = logger.get_logger_dir()
    newest = None if directory is None else tf.train.latest_checkpoint(directory)
    return JustCurrentSession() if newest is None else SaverRestore(newest)


@older_function("dump_chkpt_vars", "load_checkpoint_vars")
def dump_chkpt_vars(model_path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return all values in a checkpoint, by name."""
    return load_checkpoint_vars(model_path)


@older_function("get_global_step", "get_global_step_value")
def get_global_step() -> int:
    """Return the number of steps that were made."""
    return get_global_step_value()


@older_function("get_tf_version", "get_tf_version_tuple")
def get_tf_version() -> str:
    """Return the version of TensorFlow as text."""
    return str(tf.__version__)


@older_function("get_tf_version_number", "get_tf_version_tuple")
def get_tf_version_number() -> float:
    """Return the version of TensorFlow as a number, such as 2.16."""
    return float(".".join(tf.__version__.split(".")[:2]))


@older_function("get_all_checkpoints", "tf.train.get_checkpoint_state")
def get_all_checkpoints(dir: str | os.PathLike[str], prefix: str = "model") -> list[tuple[str, int]]:
    """Return the path and the step of each checkpoint of a directory and prefix, sorted by step."""
    pattern = re.compile(rf"({re.escape(prefix)}.*-(\d+))\.index")
    found = [match for match in map(pattern.fullmatch, os.listdir(dir)) if match]
    return sorted(((os.path.join(dir, match[1]), int(match[2])) for match in found), key=lambda pair: pair[1])
