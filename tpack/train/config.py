"""The configuration of a run, except for the trainer, validated when it is constructed; and the defaults."""

import os
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.monitors.history import NotebookPlot
from tpack.callbacks.monitors.table_writer import JSONWriter
from tpack.callbacks.monitors.writers import ScalarPrinter, TFEventWriter
from tpack.callbacks.progress import ProgressBar
from tpack.callbacks.run_op import RunUpdateOps
from tpack.callbacks.summary import MergeAllSummaries, MovingAverageSummary
from tpack.dataflow.base import DataFlow
from tpack.errors import ConfigError
from tpack.graph_builder.model_desc import ModelDescBase
from tpack.input_source.base import InputSource
from tpack.tfutils.sesscreate import NewSessionCreator, SessionCreator, check_session_creator
from tpack.tfutils.sessinit import JustCurrentSession, SessionInit, check_session_init
from tpack.train.loop import check_numbers
from tpack.types import Peers
from tpack.utils import logger
from tpack.utils.lazy import LazyModule
from tpack.utils.renames import on_unknown_name
from tpack.utils.rng import fix_rng_seed
from tpack.utils.validation import check_arguments, check_count, check_instance, check_instances

__getattr__ = on_unknown_name(__name__)

_LARGEST_SEED = 2**32 - 1

# A `DataFlow` needs no adapter, and an `InputSource` no queue.
_adapters = LazyModule("tpack.input_source.data_adapter")
_queue_input = LazyModule("tpack.input_source.queue_input")


@check_arguments
class TrainConfig:
    """The model, data, length and callbacks of a run.

    Args:
        dataflow: a `DataFlow`, which a `QueueInput` feeds; or data that `GivenData` adapts: arrays such as ``(x, y)``,
            a list, a ``tf.data.Dataset`` or a function that returns one, a generator function, a Hugging Face
            ``Dataset``, a PyTorch ``DataLoader``, a grain loader.
        data: an `InputSource`, in place of ``dataflow``.
        model: a `ModelDesc`.
        callbacks: the user's callbacks.
        extra_callbacks: the default callbacks; None means `DEFAULT_CALLBACKS`.
        monitors: the destinations of statistics; None means `DEFAULT_MONITORS`.
        session_creator: has ``create_session()``; None means a `NewSessionCreator`.
        session_config: a ``tf.ConfigProto`` for the default session creator.
        session_init: sets the variables' first values.
        starting_epoch: the first epoch, counted from 1.
        steps_per_epoch: None means one pass of all towers over the data.
        max_epoch: the last epoch.
        check_cost: raise a `NumericsError` when the cost, in the last step of an epoch, or a trainable variable is not
            finite.
        steps_per_call: the steps of one session run, without Python in between: see `tpack.train.multi_step`.
        batch_size: the examples of a step, over all towers, where ``dataflow`` has examples; None where each data point
            is a tower's batch.
        log_dir: the directory or URL (``s3://bucket/run``) for log, statistics and checkpoints, set by
            `tpack.utils.logger.set_logger_dir`. An `AutoResumeTrainConfig` keeps the files of an earlier run, others
            move them aside. None means the present directory, or, where a training of this process has it, a new one
            with the time in its name.
        seed: the seed of all random numbers, from the start of training on; see `seed_everything`. None sets none.
        sanity_steps: the batches that each tower of an `InferenceRunner` evaluates before the first step, so that an
            error in the validation shows at once; their results are discarded. 0 for none.

    Raises:
        ConfigError: An argument is of the wrong type, two exclude each other, a callback is there twice,
            ``steps_per_epoch`` is missing and the data do not know their size, or ``log_dir`` cannot be used.

    Example:
        TrainConfig(model=Model(), dataflow=(images, labels), batch_size=64, max_epoch=10, log_dir="train_log/mnist")
    """

    # The action of `set_logger_dir` where ``log_dir`` has files of an earlier run.
    _log_dir_action: str | None = None

    def __init__(
        self,
        dataflow: Any = None,
        data: InputSource | None = None,
        model: ModelDescBase | None = None,
        callbacks: Sequence[Callback] | None = None,
        extra_callbacks: Sequence[Callback] | None = None,
        monitors: Sequence[MonitorBase] | None = None,
        session_creator: SessionCreator | None = None,
        session_config: tf.ConfigProto | None = None,
        session_init: SessionInit | None = None,
        starting_epoch: float = 1,
        steps_per_epoch: float | None = None,
        max_epoch: float = 99999,
        *,
        check_cost: bool = True,
        steps_per_call: int = 1,
        batch_size: int | None = None,
        log_dir: str | os.PathLike[str] | None = None,
        seed: int | None = None,
        sanity_steps: int = 2,
    ) -> None:
        _check_kinds(self, model, data, session_config)
        check_session_init(self, session_init)
        if session_creator is not None:
            check_session_creator(self, session_creator)
        if session_creator is not None and session_config is not None:
            raise ConfigError(
                "TrainConfig got session_config and session_creator: expected one; use the config of the creator"
            )
        self.model = model
        # The processes that train together, each with its towers; known before the towers are.
        self.num_workers = 1
        # A `GivenData`, where the data had to be adapted, and the name of the data for messages.
        self._given: Any
        self.data: InputSource
        self._given, self.data, self._data_name = _source(dataflow, data, batch_size)
        self.dataflow = dataflow if isinstance(dataflow, DataFlow) else self.data.dataflow
        extra_callbacks = DEFAULT_CALLBACKS() if extra_callbacks is None else extra_callbacks
        monitors = DEFAULT_MONITORS() if monitors is None else monitors
        self.callbacks = check_instances(self, "callbacks", () if callbacks is None else callbacks, Callback)
        self.extra_callbacks = check_instances(self, "extra_callbacks", extra_callbacks, Callback)
        self.monitors = check_instances(self, "monitors", monitors, MonitorBase)
        _check_no_repetition([*self.callbacks, *self.extra_callbacks])
        self.session_creator = session_creator or NewSessionCreator(config=session_config)
        self.session_init = session_init or JustCurrentSession()
        self._steps_of_pass = self._size_of_data() if steps_per_epoch is None else None
        self.steps_per_epoch, self.starting_epoch, self.max_epoch = check_numbers(
            self, self._steps_of_pass if steps_per_epoch is None else steps_per_epoch, starting_epoch, max_epoch
        )
        self.starting_step = 0
        self.check_cost = check_cost
        self.steps_per_call = check_count(self, "steps_per_call", steps_per_call)
        self.sanity_steps = check_count(self, "sanity_steps", sanity_steps, 0)
        self.callback_states: dict[str, Any] = {}
        # The input source and the callbacks are of one graph.
        self.was_launched = False
        # The positions in the data of the workers of the resumed run, by rank.
        self.data_states: list[dict[str, Any]] = []
        self.seed = None if seed is None else check_count(self, "seed", seed, 0, _LARGEST_SEED)
        if starting_epoch > max_epoch:
            raise ConfigError(
                f"TrainConfig got starting_epoch={starting_epoch}: expected at most max_epoch={max_epoch}"
            )
        self._log_dir, self._local_log_dir = log_dir, ""
        self._set_log_dir(self._log_dir_action)

    def enter_log_dir(self) -> None:
        """Set the directory of the run again where another config or training has it."""
        if self._log_dir is None:
            logger.leave_trained_dir()
        elif logger.has_trained_in(self._local_log_dir):
            self._set_log_dir(self._log_dir_action)
        elif logger.get_logger_dir() != self._local_log_dir:
            self._set_log_dir("k")

    def _set_log_dir(self, action: str | None) -> None:
        if self._log_dir is not None:
            logger.set_logger_dir(self._log_dir, action=action)
            self._local_log_dir = logger.get_logger_dir() or ""

    def share_data(self, peers: Peers) -> bool:
        """Share data that all of several workers were given as ``dataflow``; return whether each takes its share.

        Raises:
            ConfigError: They cannot be compared between workers.
        """
        is_shared = self._given is not None and self._given.share_data(peers, self.seed or 0)
        if is_shared:
            self.dataflow = self.data.dataflow
        return is_shared

    def fit_to_towers(self, num_towers: int) -> None:
        """Make an epoch one pass of the process's K towers over the data, unless ``steps_per_epoch`` was given.

        Raises:
            ConfigError: ``batch_size`` is not a multiple of the number of towers.
        """
        if self._given is not None:
            self._given.fit_to_towers(num_towers * self.num_workers)
        if self._steps_of_pass is not None and self.steps_per_epoch == self._steps_of_pass:
            self.steps_per_epoch = self._steps_of_pass = self._size_of_data(num_towers)
        self.starting_step = min(self.starting_step, self.steps_per_epoch)

    def describe_data(self) -> str:
        """Return the origin of the data in a few words."""
        flow = None if self.dataflow is None else type(self.dataflow).__name__
        name = self._given.name if self._given is not None else flow
        return f"{name} through {self.data}" if name else str(self.data)

    def limit_steps(self, steps_per_epoch: int) -> None:
        """Set the length of an epoch, even where it was one pass."""
        self.steps_per_epoch, self._steps_of_pass = steps_per_epoch, None
        self.starting_step = min(self.starting_step, steps_per_epoch)

    def repeat_batches(self, data: InputSource, num_towers: int) -> None:
        """Replace the data; an epoch is one pass of the K towers over them unless ``steps_per_epoch`` was given."""
        self.data = data
        if self._steps_of_pass is not None:
            self.limit_steps(data.steps_of_pass(num_towers))

    def start(self) -> dict[str, Any]:
        """Return the position at which training begins, for the other workers."""
        return {
            "starting_epoch": self.starting_epoch,
            "starting_step": self.starting_step,
            "callback_states": self.callback_states,
            "data_states": self.data_states,
        }

    def begin_at(self, start: Mapping[str, Any]) -> None:
        """Begin at the position that another worker's `start` returned."""
        self.starting_epoch, self.starting_step = start["starting_epoch"], start["starting_step"]
        self.callback_states = dict(start["callback_states"])
        self.data_states = list(start["data_states"])

    def _size_of_data(self, num_towers: int = 1) -> int:
        try:
            return self.data.steps_of_pass(num_towers)
        except NotImplementedError:
            raise ConfigError(
                f"{type(self).__name__} got no steps_per_epoch, and {self._data_name} does not know its size: expected "
                "the steps of an epoch"
            ) from None


def seed_everything(seed: int, graph: tf.Graph, *, rank: int = 0) -> None:
    """Seed the random numbers of Python, numpy, a graph and data flows.

    Data flows draw from generators of their own (`tpack.utils.rng.get_rng`). Those given out from now on, here and in
    forked workers, follow from the seed and differ by flow and worker. Draws in processes of other libraries, or from
    the device, do not follow from it; sums on GPUs may differ in their last bits.

    Args:
        seed: from 0 to 2**32 - 1.
        graph: its operations that are made from now on have seeds that follow from this one and their order.
        rank: the number of this process among several, which draw different numbers in Python and the same in graphs.
    """
    own = int(np.random.SeedSequence([seed, rank]).generate_state(1)[0]) if rank else seed
    random.seed(own)
    np.random.seed(own)
    fix_rng_seed(own)
    with graph.as_default():
        tf.set_random_seed(seed)


def DEFAULT_CALLBACKS() -> list[Callback]:
    """Return new default callbacks: moving averages, a progress bar, summaries each epoch, and update ops each step."""
    return [MovingAverageSummary(), ProgressBar(), MergeAllSummaries(), RunUpdateOps()]


def DEFAULT_MONITORS() -> list[MonitorBase]:
    """Return new default monitors: TensorBoard events, ``stats.json``, and the scalars of each epoch in the log.

    In a notebook there is a plot and a table, too, which follow the training below the cell.
    """
    live = [NotebookPlot()] if logger.in_notebook() else []
    return [TFEventWriter(), JSONWriter(), ScalarPrinter(), *live]


def _source(dataflow: Any, data: InputSource | None, batch_size: int | None) -> tuple[Any, InputSource, str]:
    """Return the `GivenData` of data that had to be adapted, else None; the input source; the name of the data."""
    if (dataflow is None) == (data is None):
        raise ConfigError("TrainConfig got both or neither of dataflow and data: expected one of them")
    if data is None and isinstance(dataflow, DataFlow) and batch_size is None:
        return None, _queue_input.QueueInput(dataflow), type(dataflow).__name__
    if data is None:
        given = _adapters.GivenData(dataflow, batch_size)
        return given, given.source, given.name
    if batch_size is not None:
        raise ConfigError(
            f"TrainConfig got {batch_size=} and data: expected None, since {type(data).__name__} makes batches"
        )
    return None, data, type(data).__name__


def _check_kinds(owner: object, model: object, data: object, session_config: object) -> None:
    for name, value, kind, wanted in (
        ("model", model, ModelDescBase, None),
        ("data", data, InputSource, "an InputSource, such as QueueInput(dataflow)"),
        ("session_config", session_config, tf.ConfigProto, "a tf.ConfigProto"),
    ):
        if value is not None:
            check_instance(owner, name, value, kind, wanted)


def _check_no_repetition(callbacks: Sequence[Callback]) -> None:
    for position, callback in enumerate(callbacks):
        if any(callback is other for other in callbacks[:position]):
            raise ConfigError(f"TrainConfig got the callback {callback} twice: expected another object in each place")
