"""Go on where an earlier run in the same log directory stopped, with as many workers or with others."""

import os
from typing import Any

from tpack.callbacks.base import Callback
from tpack.dataflow.base import length_or_none
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.shard import shards_in
from tpack.errors import CheckpointError, ConfigError, InputError
from tpack.tfutils.checkpoint import CheckpointReader, latest_checkpoint
from tpack.tfutils.graph_lookup import GLOBAL_STEP_NAME
from tpack.tfutils.sessinit import SmartInit
from tpack.tfutils.train_state import (
    TrainState,
    data_state_path,
    read_data_state,
    read_train_state,
    states_of_workers,
    train_state_path,
)
from tpack.train.config import TrainConfig
from tpack.types import Peers
from tpack.utils import logger
from tpack.utils.dir_lock import DirectoryClaim
from tpack.utils.launch_env import memory_directory, worker_place
from tpack.utils.validation import check_arguments


@check_arguments
class AutoResumeTrainConfig(TrainConfig):
    """A `TrainConfig` that resumes from the log directory.

    The directory is ``log_dir``, or that of `tpack.utils.logger.set_logger_dir`; files that were moved aside there for
    lack of an action are moved back.

    Variables, epoch, step and the states of callbacks come from the newest checkpoint; ``session_init`` and
    ``starting_epoch`` apply to a first run only. A run that was killed within an epoch makes the rest of it; after its
    last step, the callbacks at its end are called again.

    The data resume with the next data point, so that an interrupted run sees the sequence of an uninterrupted one.
    Where a flow has no position, they start from the beginning, and the log says so. Another dataflow than the earlier
    run's raises an `InputError` before the first step.

    A checkpoint of `MemorySaver` of a later step, in the memory of this machine, comes before those on disk.

    A checkpoint has the positions of all workers. The same number of workers resume each from its own; for another
    number, `ShardData` deals out the rest of the epoch, and its finished steps are converted unless ``steps_per_epoch``
    was given.

    Args:
        always_resume: also resume when ``session_init`` or ``starting_epoch`` is given.
        resume_data: resume with the next data point; False starts the data from the beginning.
        restart_if_unreadable: start from the beginning where no checkpoint loads, and overwrite the checkpoints.
        **kwargs: as for `TrainConfig`.

    Raises:
        ConfigError: No log directory is set, another process trains in it, or as for `TrainConfig`.
        CheckpointError: No checkpoint loads; the message lists them. Or the training state or the position in the data
            is damaged or of another step, or there is neither a training state nor a global step.

    Example:
        config = AutoResumeTrainConfig(model=..., dataflow=..., callbacks=[ModelSaver()], log_dir="train_log/mnist")
    """

    _log_dir_action = "k"
    _resumed_step: int | None = None
    # The finished steps of the earlier run's epoch, and its length, if known.
    _finished_steps = 0
    _former_steps: int | None = None

    def __init__(
        self,
        always_resume: bool = True,
        resume_data: bool = True,
        *,
        restart_if_unreadable: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not always_resume and (kwargs.get("session_init") is not None or kwargs.get("starting_epoch") is not None):
            return
        logger.take_back_dir()
        directory = logger.get_logger_dir()
        if directory is None:
            raise ConfigError(
                "AutoResumeTrainConfig found no log directory to resume from: use log_dir, or call "
                "logger.set_logger_dir(directory, action='k') or logger.auto_set_dir(action='k') first"
            )
        # Reserves the directory, so that the checkpoint found here stays the last one.
        self.extra_callbacks.append(KeepClaim(DirectoryClaim(directory)))
        if worker_place(os.environ)[0] > 0:
            # The chief's directory has the checkpoints; it broadcasts the position.
            return
        prefix = _later_in_memory(directory, _latest_checkpoint(directory, restart_if_unreadable=restart_if_unreadable))
        if prefix is None:
            logger.info(f"There is no checkpoint in {directory}: training starts from the beginning.")
            return
        state = self._state_of(prefix)
        self._resume_from(prefix, state)
        if resume_data:
            self._resume_data(prefix, state.global_step)

    def fit_to_towers(self, num_towers: int) -> None:
        """Fit the config to K towers, and convert the finished steps where an epoch has another length now.

        With only a global step, its epochs are counted. Otherwise, where an epoch is a pass over the data, the same
        part of it is finished.
        """
        super().fit_to_towers(num_towers)
        steps, former = self.steps_per_epoch, self._former_steps
        if self._resumed_step is not None:
            finished_epochs, self.starting_step = divmod(self._resumed_step, steps)
            self.starting_epoch = finished_epochs + 1
        elif self._steps_of_pass is not None and former not in (None, steps) and self._finished_steps:
            self.starting_step = min(steps, round(self._finished_steps * steps / former))
            logger.info(f"An epoch had {former} steps and has {steps} now, of which {self.starting_step} are finished.")

    def _state_of(self, prefix: str) -> TrainState:
        """Return the position of a checkpoint."""
        reader = CheckpointReader(prefix)
        state = read_train_state(prefix)
        if state is None:
            return self._state_by_global_step(prefix, reader)
        if GLOBAL_STEP_NAME in reader.shapes and reader.read(GLOBAL_STEP_NAME) != state.global_step:
            raise CheckpointError(
                f"{train_state_path(prefix)} is the state of step {state.global_step}, and its checkpoint is that of "
                f"step {reader.read(GLOBAL_STEP_NAME)}: files of several runs were mixed. Without the state file, "
                "training goes on by the checkpoint's own step"
            )
        return state

    def _resume_from(self, prefix: str, state: TrainState) -> None:
        self.session_init = SmartInit(prefix, must_match=True)
        self.callback_states = state.callbacks
        # Where all steps of an epoch are finished, what callbacks do at its end is not: then it would be the next one.
        self.starting_epoch, self.starting_step = state.epoch_num, min(state.local_step, self.steps_per_epoch)
        self._finished_steps, self._former_steps = state.local_step, state.steps_per_epoch
        where = f"epoch {self.starting_epoch}, after {self.starting_step} of its steps"
        logger.info(f"Resuming from {prefix}, global step {state.global_step}: training goes on in {where}.")
        if self.starting_epoch > self.max_epoch:
            logger.warning(f"Training had already reached its last epoch, {self.max_epoch}: nothing is left to train.")

    def _resume_data(self, prefix: str, global_step: int) -> None:
        state = read_data_state(prefix, global_step)
        if state is None:
            logger.info(f"{os.path.basename(prefix)} has no position in the data: they start from the beginning.")
            return
        try:
            self.data_states = states_of_workers(state)
            # Several workers resume in `resume_data`, when they know each other.
            if len(self.data_states) == 1 and worker_place(os.environ)[1] == 1:
                self.data.load_data_state(self.data_states[0])
        except StatelessError as error:
            logger.warning(f"The data start from the beginning: {error}.")
        except InputError as error:
            raise CheckpointError(f"{data_state_path(prefix)} holds no position in the data: {error}") from error

    def _state_by_global_step(self, prefix: str, reader: CheckpointReader) -> TrainState:
        """Return the position of another program's checkpoint, in epochs of the present length."""
        step = int(reader.read(GLOBAL_STEP_NAME))
        logger.warning(
            f"{os.path.basename(prefix)} has no training state: the epoch follows from its global step {step}."
        )
        self._resumed_step = step
        return TrainState(step // self.steps_per_epoch + 1, step % self.steps_per_epoch, step)


def share_data(config: TrainConfig, peers: Peers | None) -> None:
    """Give one of several workers its share of the data, before their size is read; ``peers`` is None on one machine.

    Raises:
        ConfigError: A `ShardData` is that of another worker, or the data cannot be shared evenly.
    """
    rank, size = (0, 1) if peers is None else (peers.rank, peers.size)
    config.num_workers = size
    if size == 1:
        return
    ds = config.data.dataflow
    shards = [] if ds is None else shards_in(ds)
    for shard in shards:
        shard.be_of(rank, size)
        length = length_or_none(shard.ds)
        if shard.remainder == "keep" and (length is None or length % size):
            raise ConfigError(
                f"ShardData got remainder='keep' for {size} workers and {length} data points: expected 'wrap', 'drop' "
                "or 'error', since all workers make the same steps"
            )
    if not shards and peers is not None:
        _share_given(config, peers)


def _share_given(config: TrainConfig, peers: Peers) -> None:
    """Share arrays, lists and generators that all workers have; log where each worker reads all data."""
    if config.share_data(peers):
        if peers.rank == 0:
            logger.info(f"The data are the same in all {peers.size} workers: each takes its share.")
        if len(config.data_states) == 1:
            logger.warning("The data start from the beginning: one process read those that are shared now.")
            config.data_states = []
    elif peers.rank == 0:
        logger.warning(
            f"Each of the {peers.size} workers reads all data: use ShardData near their source to share them. Without "
            f"it an epoch is {peers.size} passes, unless each worker has data of its own."
        )


def resume_data(config: TrainConfig, peers: Peers | None) -> None:
    """Resume the data where the workers of an earlier run stopped, if there were or are several.

    Raises:
        InputError: The dataflow is not that of the earlier run.
        ConfigError: The data cannot be shared by this number of workers.
    """
    rank, size = (0, 1) if peers is None else (peers.rank, peers.size)
    former = len(config.data_states)
    if former == 0 or (former == 1 and size == 1):
        return
    try:
        config.data.deal_data_states(config.data_states, rank, size)
    except StatelessError as error:
        logger.warning(f"The data start from the beginning: {error}.")
    except InputError as error:
        raise InputError(
            f"the data cannot resume where those of the {former} workers of the earlier run stopped: {error}. Build "
            "the same dataflow, or start the data from the beginning: AutoResumeTrainConfig(resume_data=False)"
        ) from error
    else:
        if former != size:
            logger.info(f"The rest of the data of {former} workers is dealt out to {size}.")


class KeepClaim(Callback):
    """Keeps a directory claimed until training ends."""

    # Each worker has a directory of its own.
    _chief_only = False

    def __init__(self, claim: DirectoryClaim) -> None:
        self._claim = claim

    def _after_train(self) -> None:
        self._claim.release()


def _later_in_memory(directory: str, prefix: str | None) -> str | None:
    """Return the newest checkpoint of `MemorySaver` if it is of a later step than another one; that one otherwise."""
    in_memory = memory_directory(directory)
    if in_memory is None or not os.path.isdir(in_memory):
        return prefix
    try:
        found = latest_checkpoint(in_memory)
    except CheckpointError as error:
        logger.warning(f"The checkpoints in memory are left aside: {error}.")
        return prefix
    if found is None or (prefix is not None and _step_of(found) <= _step_of(prefix)):
        return prefix
    return found


def _step_of(prefix: str) -> int:
    state = read_train_state(prefix)
    return int(CheckpointReader(prefix).read(GLOBAL_STEP_NAME)) if state is None else state.global_step


def _latest_checkpoint(directory: str, *, restart_if_unreadable: bool) -> str | None:
    """Return the newest loadable checkpoint of a directory; None if there is none, or unreadable ones are ignored."""
    try:
        return latest_checkpoint(directory)
    except CheckpointError as error:
        if not restart_if_unreadable:
            raise CheckpointError(f"{error}, or use restart_if_unreadable=True, which overwrites them") from error
        logger.warning(f"Training starts from the beginning, since restart_if_unreadable=True: {error}.")
        return None
