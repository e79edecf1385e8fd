"""Everything about a run but the trainer, checked when it is written down; with the defaults of most runs."""

import importlib
import os
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.averages import MovingAverageSummary
from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.monitors.json_writer import JSONWriter
from tpack.callbacks.monitors.writers import ScalarPrinter, TFEventWriter
from tpack.callbacks.progress import ProgressBar
from tpack.callbacks.run_op import RunUpdateOps
from tpack.callbacks.summary import MergeAllSummaries
from tpack.dataflow.base import DataFlow
from tpack.errors import ConfigError
from tpack.graph_builder.model_desc import ModelDescBase
from tpack.input_source.base import InputSource
from tpack.input_source.queue_input import QueueInput
from tpack.tfutils.sesscreate import NewSessionCreator, SessionCreator, check_session_creator
from tpack.tfutils.sessinit import JustCurrentSession, SessionInit, check_session_init
from tpack.train.loop import check_numbers
from tpack.types import Peers
from tpack.utils import logger
from tpack.utils.renames import on_unknown_name
from tpack.utils.rng import fix_rng_seed
from tpack.utils.validation import check_arguments, check_count, check_instance, check_instances

__getattr__ = on_unknown_name(__name__)

_LARGEST_SEED = 2**32 - 1

_ADAPTERS = "tpack.input_source.data_adapter"
"""The module that adapts arrays, datasets and other libraries' loaders; a `DataFlow` needs none of it."""


@check_arguments
class TrainConfig:
    """What is trained, on what data, for how long, and what happens around the steps.

    Args:
        dataflow: a `DataFlow`, which a `QueueInput` takes to the graph; or other data as `GivenData` takes them:
            arrays such as ``(x, y)``, a list, a ``tf.data.Dataset`` or a function that makes one, a generator function,
            a Hugging Face ``Dataset``, a PyTorch ``DataLoader``, a grain loader.
        data: an `InputSource`, in place of ``dataflow``.
        model: a `ModelDesc`.
        callbacks: the user's callbacks.
        extra_callbacks: the callbacks that most runs have; None means `DEFAULT_CALLBACKS`.
        monitors: where statistics go; None means `DEFAULT_MONITORS`.
        session_creator: has ``create_session()``; None means a `NewSessionCreator`.
        session_config: a ``tf.ConfigProto`` for the default session creator.
        session_init: gives variables their first values.
        starting_epoch: the number of the first epoch, counted from 1.
        steps_per_epoch: None means one pass over the data: their size, divided by the number of towers when the trainer
            is known, since each tower takes data of its own.
        max_epoch: the number of the last epoch.
        check_cost: end training with a `NumericsError` when the cost, in the last step of an epoch, or a trainable
            variable is NaN or infinite; False trains on.
        steps_per_call: so many steps are one run of the session, without Python in between: see `tpack.train.multi_step`.
        batch_size: how many examples a step takes, over all towers, where ``dataflow`` has examples; None where each
            of its points is what one tower takes in a step.
        log_dir: the directory of the run, for its log, statistics and checkpoints, set right here by
            `tpack.utils.logger.set_logger_dir`: what a former run left there is moved aside, and kept by an
            `AutoResumeTrainConfig`. It may be a URL such as ``s3://bucket/run``. None leaves it as the script has set
            it.
        seed: what all random numbers begin with, from the start of training on; see `seed_everything`. None leaves
            them as they are.

    Raises:
        ConfigError: An argument is of the wrong type, two exclude each other, a callback is there twice,
            ``steps_per_epoch`` is not given and the data does not know its size, or ``log_dir`` cannot be used.

    Example:
        TrainConfig(model=Model(), dataflow=(images, labels), batch_size=64, max_epoch=10, log_dir="train_log/mnist")
    """

    # What becomes of what a former run has left in ``log_dir``.
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
        starting_epoch: int = 1,
        steps_per_epoch: int | None = None,
        max_epoch: int = 99999,
        *,
        check_cost: bool = True,
        steps_per_call: int = 1,
        batch_size: int | None = None,
        log_dir: str | os.PathLike[str] | None = None,
        seed: int | None = None,
    ) -> None:
        for name, value, kind, wanted in (
            ("model", model, ModelDescBase, None),
            ("data", data, InputSource, "an InputSource, such as QueueInput(dataflow)"),
            ("session_config", session_config, tf.ConfigProto, "a tf.ConfigProto"),
        ):
            if value is not None:
                check_instance(self, name, value, kind, wanted)
        check_session_init(self, session_init)
        if session_creator is not None:
            check_session_creator(self, session_creator)
        if session_creator is not None and session_config is not None:
            raise ConfigError("session_config is for the default session creator: give it to your own one instead")
        self.model = model
        # How many processes train together, each with its towers; known before the towers are.
        self.num_workers = 1
        # A `GivenData`, where the data needed to be adapted.
        self._given: Any
        self.data: InputSource
        self._given, self.data = _source(dataflow, data, batch_size)
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
        self.callback_states: dict[str, Any] = {}
        # Where the workers of the run that is resumed were in the data, by rank.
        self.data_states: list[dict[str, Any]] = []
        self.seed = None if seed is None else check_count(self, "seed", seed, 0, _LARGEST_SEED)
        if starting_epoch > max_epoch:
            raise ConfigError(f"nothing to train: starting_epoch is {starting_epoch} and max_epoch {max_epoch}")
        if log_dir is not None:
            logger.set_logger_dir(log_dir, action=self._log_dir_action)

    def share_arrays(self, peers: Peers) -> bool:
        """Let each of several workers take its share of arrays that all of them were given as ``dataflow``.

        Args:
            peers: the workers.

        Returns:
            Whether they are shared.
        """
        return self._given is not None and self._given.share_arrays(peers, self.seed or 0)

    def fit_to_towers(self, num_towers: int) -> None:
        """Let an epoch be one pass of several towers over the data, unless ``steps_per_epoch`` was given.

        Args:
            num_towers: K, those of this process.

        Raises:
            ConfigError: ``batch_size`` examples cannot be dealt out to them evenly.
        """
        if self._given is not None:
            self._given.fit_to_towers(num_towers * self.num_workers)
        if self._steps_of_pass is not None and self.steps_per_epoch == self._steps_of_pass:
            self.steps_per_epoch = self._steps_of_pass = self._size_of_data(num_towers)
        self.starting_step = min(self.starting_step, self.steps_per_epoch)

    def describe_data(self) -> str:
        """Return in a few words where the data come from."""
        flow = None if self.dataflow is None else type(self.dataflow).__name__
        name = self._given.name if self._given is not None else flow
        return f"{name} through {self.data}" if name else str(self.data)

    def limit_steps(self, steps_per_epoch: int) -> None:
        """Let an epoch have so many steps, whatever it had.

        Args:
            steps_per_epoch: at least one.
        """
        self.steps_per_epoch, self._steps_of_pass = steps_per_epoch, None
        self.starting_step = min(self.starting_step, steps_per_epoch)

    def repeat_batches(self, data: InputSource, num_towers: int) -> None:
        """Take other data, of which an epoch is one pass unless ``steps_per_epoch`` was given.

        Args:
            data: they.
            num_towers: K.
        """
        self.data = data
        if self._steps_of_pass is not None:
            self.limit_steps(data.steps_of_pass(num_towers))

    def start(self) -> dict[str, Any]:
        """Return where training begins, for workers that begin where this one does."""
        return {
            "starting_epoch": self.starting_epoch,
            "starting_step": self.starting_step,
            "callback_states": self.callback_states,
            "data_states": self.data_states,
        }

    def begin_at(self, start: Mapping[str, Any]) -> None:
        """Begin where another worker's training does.

        Args:
            start: what `start` of that one's config returned.
        """
        self.starting_epoch, self.starting_step = start["starting_epoch"], start["starting_step"]
        self.callback_states = dict(start["callback_states"])
        self.data_states = list(start["data_states"])

    def _size_of_data(self, num_towers: int = 1) -> int:
        try:
            return self.data.steps_of_pass(num_towers)
        except NotImplementedError:
            source = type(self.data).__name__ if self._given is None else self._given.name
            raise ConfigError(f"steps_per_epoch must be given: {source} does not know its size") from None


def seed_everything(seed: int, graph: tf.Graph, *, rank: int = 0) -> None:
    """Let random numbers begin with a seed: those of Python, numpy, a graph and data flows.

    Data flows draw from generators of their own (`tpack.utils.rng.get_rng`); those that are given out from now on, in
    this process and in workers that are forked, follow from the seed, and differ by flow and worker. What draws in
    processes of other libraries, or without a seed from the device, does not follow from it; and sums on GPUs may
    differ in their last bits from run to run.

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
    """Return new default monitors: TensorBoard events, ``stats.json``, and the scalars of each epoch in the log."""
    return [TFEventWriter(), JSONWriter(), ScalarPrinter()]


def _source(dataflow: Any, data: InputSource | None, batch_size: int | None) -> tuple[Any, InputSource]:
    """Return the `GivenData` of data that need to be adapted, else None, and the input source."""
    if (dataflow is None) == (data is None):
        raise ConfigError("give either dataflow, such as a DataFlow, or data, an InputSource; got both or neither")
    if data is None and isinstance(dataflow, DataFlow) and batch_size is None:
        return None, QueueInput(dataflow)
    if data is None:
        given = importlib.import_module(_ADAPTERS).GivenData(dataflow, batch_size)
        return given, given.source
    if batch_size is not None:
        raise ConfigError(f"batch_size={batch_size} is for dataflow: {type(data).__name__} has batches of its own")
    return None, data


def _check_no_repetition(callbacks: Sequence[Callback]) -> None:
    for position, callback in enumerate(callbacks):
        if any(callback is other for other in callbacks[:position]):
            raise ConfigError(f"the callback {callback} is there twice: each place needs an object of its own")
