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
from tpack.utils.launch_env import worker_place
from tpack.utils.validation import check_arguments


@check_arguments
class AutoResumeTrainConfig(TrainConfig):
    """A `TrainConfig` that looks into the log directory first.

    That is ``log_dir``, or the one that `tpack.utils.logger.set_logger_dir` has set: what was moved aside there, since
    no action was given, is taken back.

    If a checkpoint is there, variables, epoch, step and what callbacks remember come from it, and the given
    ``session_init`` and ``starting_epoch`` are for a first run only. A run that was killed in the middle of an epoch
    makes the rest of it; one that was killed while callbacks were at work after its last step calls them again.

    The data go on with the very next data point, so that the steps of an interrupted and of an uninterrupted run see
    the same sequence. Where the position of a flow cannot be told, the data begin anew, and the log says so. The
    dataflow must be built as in the earlier run; one that is not ends training with an `InputError` before the first
    step.

    A checkpoint has the positions of all workers. As many as there were go on each from its own; another number of
    workers is dealt the rest of the epoch anew by `ShardData`, and the steps of the epoch that are finished are counted
    in theirs, unless ``steps_per_epoch`` was given.

    Args:
        always_resume: also resume when ``session_init`` or ``starting_epoch`` is given.
        resume_data: go on with the next data point; False lets the data begin anew.
        restart_if_unreadable: start from the beginning also where there are checkpoints of which none loads, and write
            over them.
        **kwargs: as for `TrainConfig`.

    Raises:
        ConfigError: No log directory is set, another process trains in it, or as for `TrainConfig`.
        CheckpointError: There are checkpoints and none of them loads; the message lists them. Or the training state or
            the position in the data beside the checkpoint is damaged or that of another step, or there is neither a
            training state nor a global step.

    Example:
        config = AutoResumeTrainConfig(model=..., dataflow=..., callbacks=[ModelSaver()], log_dir="train_log/mnist")
    """

    _log_dir_action = "k"
    _resumed_step: int | None = None
    # How many steps of its epoch the earlier run had made, and how many that had, if it was told.
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
                "AutoResumeTrainConfig resumes from the log directory, and none is set: give log_dir, or call "
                "logger.set_logger_dir(directory, action='k') or logger.auto_set_dir(action='k') first"
            )
        # Nobody else may write there from now on, or what is read now would not be the last of it.
        self.extra_callbacks.append(KeepClaim(DirectoryClaim(directory)))
        if worker_place(os.environ)[0] > 0:
            # Each worker has a directory of its own, and checkpoints are in that of the chief, who tells the others.
            return
        prefix = _latest_checkpoint(directory, restart_if_unreadable=restart_if_unreadable)
        if prefix is None:
            logger.info(f"There is no checkpoint in {directory}: training starts from the beginning.")
            return
        state = self._state_of(prefix)
        self._resume_from(prefix, state)
        if resume_data:
            self._resume_data(prefix, state.global_step)

    def fit_to_towers(self, num_towers: int) -> None:
        """Do as for `TrainConfig`, and count what is finished in the steps that an epoch has now.

        Where only the global step is known, its epochs are counted. Else, if an epoch is a pass, which other towers,
        workers or batches make in another number of steps, as much of it is finished as was.

        Args:
            num_towers: K.
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
        """Return where a checkpoint stands."""
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
        self.session_init = SmartInit(prefix)
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
            logger.info(f"There is no position in the data beside {os.path.basename(prefix)}: the data begin anew.")
            return
        try:
            self.data_states = states_of_workers(state)
            # Several workers go on when they know of each other, in `resume_data`.
            if len(self.data_states) == 1 and worker_place(os.environ)[1] == 1:
                self.data.load_data_state(self.data_states[0])
        except StatelessError as error:
            logger.warning(f"The data begin anew: {error}.")
        except InputError as error:
            raise CheckpointError(f"{data_state_path(prefix)} holds no position in the data: {error}") from error

    def _state_by_global_step(self, prefix: str, reader: CheckpointReader) -> TrainState:
        """Return where a checkpoint that another program wrote stands, counting epochs of today's length."""
        step = int(reader.read(GLOBAL_STEP_NAME))
        logger.warning(
            f"{os.path.basename(prefix)} has no training state: the epoch follows from its global step {step}."
        )
        self._resumed_step = step
        return TrainState(step // self.steps_per_epoch + 1, step % self.steps_per_epoch, step)


def share_data(config: TrainConfig, peers: Peers | None) -> None:
    """Let the data of one of several workers be its share, before it is asked how many there are.

    Args:
        config: its training.
        peers: the workers; None where there is only this process.

    Raises:
        ConfigError: A `ShardData` is that of another worker, or the data cannot be dealt out evenly.
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
                f"ShardData(remainder='keep') gives the first of {size} workers more of {length} data points: expected "
                "'wrap', 'drop' or 'error' in training, where all make the same steps"
            )
    if not shards and peers is not None:
        _share_arrays(config, peers)


def _share_arrays(config: TrainConfig, peers: Peers) -> None:
    """Deal out arrays that all workers have; say that each reads everything, where that is so."""
    if config.share_arrays(peers):
        if peers.rank == 0:
            logger.info(f"The arrays are the same in all {peers.size} workers: each takes its share of them.")
        if len(config.data_states) == 1:
            logger.warning("The data begin anew: one process had read the arrays, and they are shared now.")
            config.data_states = []
    elif peers.rank == 0:
        logger.warning(
            f"Each of the {peers.size} workers reads all data, since there is no ShardData in them: an epoch of all is "
            f"{peers.size} times as long as one pass, unless each has data of its own. A ShardData near the source of "
            "the data deals them out."
        )


def resume_data(config: TrainConfig, peers: Peers | None) -> None:
    """Let the data go on where the workers of an earlier run stopped, if there were or are several.

    Args:
        config: the training, which knows where they stopped.
        peers: the workers of today; None where there is only this process.

    Raises:
        InputError: The dataflow is not that of the earlier run.
        ConfigError: The data cannot be dealt out to so many workers.
    """
    rank, size = (0, 1) if peers is None else (peers.rank, peers.size)
    former = len(config.data_states)
    if former == 0 or (former == 1 and size == 1):
        return
    try:
        config.data.deal_data_states(config.data_states, rank, size)
    except StatelessError as error:
        logger.warning(f"The data begin anew: {error}.")
    except InputError as error:
        raise InputError(
            f"the data cannot go on where those of the {former} workers of the earlier run stopped: {error}. Build the "
            "dataflow as in that run, or let the data begin anew: AutoResumeTrainConfig(resume_data=False)"
        ) from error
    else:
        if former != size:
            logger.info(f"What {former} workers have left of the data is dealt out to {size}.")


class KeepClaim(Callback):
    """Keep a directory claimed until training ends.

    Args:
        claim: it is released then.
    """

    # Each worker has a directory of its own.
    _chief_only = False

    def __init__(self, claim: DirectoryClaim) -> None:
        self._claim = claim

    def _after_train(self) -> None:
        self._claim.release()


def _latest_checkpoint(directory: str, *, restart_if_unreadable: bool) -> str | None:
    """Return the newest checkpoint of a directory that loads; None if there is none, or if none counts."""
    try:
        return latest_checkpoint(directory)
    except CheckpointError as error:
        if not restart_if_unreadable:
            raise CheckpointError(f"{error}, or give restart_if_unreadable=True, which writes over them") from error
        logger.warning(f"Training starts from the beginning, as it was told to in this case: {error}.")
        return None
