"""Checkpoints in the memory of each machine of a job, so that a restart loses few steps without writing to disk."""

import hashlib
import os
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.saver import ModelSaver
from tpack.errors import CallbackError
from tpack.utils import logger
from tpack.utils.launch_env import MEMORY_VARIABLE, memory_directory
from tpack.utils.validation import check_arguments

_KEPT = 2


@check_arguments
class MemorySaver(ModelSaver):
    """Save checkpoints in the memory of each machine of a job of ``tpack launch``, for its restarts.

    `AutoResumeTrainConfig` resumes from it where it is of a later step than the checkpoints on disk. It has all that
    they have: weights, slots, positions in the data of all workers, and the states of callbacks. The first worker of
    each machine writes one, so that the loss of a machine loses none, if all workers have the same variables; with
    optimizer states or tables that are spread over the workers, the chief's machine has the only one, and the log says
    so. The last two are kept. When the job ends, they are removed. Without ``tpack launch`` nothing is saved.

    The directory is ``$TPACK_MEMORY_DIR``, below ``/dev/shm``, where there is that.

    Args:
        asynchronous: as for `ModelSaver`.

    Raises:
        CallbackError: There is no log directory.
        CheckpointError: The memory of the machine does not suffice, when a checkpoint is written.

    Example:
        callbacks = [PeriodicTrigger(MemorySaver(), every_k_steps=20), ModelSaver()]
    """

    def __init__(self, *, asynchronous: bool = False) -> None:
        super().__init__(max_to_keep=_KEPT, asynchronous=asynchronous)
        self._is_active = False
        self._writes = False
        self._has_copies = False
        self._fingerprint: str | None = None

    def _is_writer(self) -> bool:
        return self._writes

    def _setup_graph(self) -> None:
        name = self._name_of_training()
        if name is None:
            if self.trainer.is_chief:
                logger.info(f"{self} saves nothing: there is no {MEMORY_VARIABLE}, which tpack launch sets.")
            return
        self._is_active = True
        memory = os.environ.get(MEMORY_VARIABLE)
        if memory and (self.trainer.is_chief or os.environ.get("LOCAL_RANK") == "0"):
            self._writes = True
            self._given_dir = os.path.join(memory, name)
            self._fingerprint = self._variables_here()
            os.makedirs(self._given_dir, mode=0o700, exist_ok=True)
        super()._setup_graph()

    def _name_of_training(self) -> str | None:
        """Return the name of the chief's directory, the same on each machine; None where nothing is saved."""
        directory = None
        if self.trainer.is_chief:
            log_dir = logger.get_logger_dir()
            if log_dir is None:
                raise CallbackError(f"{self} found no log directory: use log_dir of TrainConfig")
            directory = memory_directory(log_dir)
        name = directory and os.path.basename(directory)
        peers = self.trainer.peers
        return name if peers is None else peers.broadcast("the directory in memory", name)

    def _before_train(self) -> None:
        if not self._is_active:
            return
        peers = self.trainer.peers
        if peers is not None:
            self._agree_on_writers(peers.gather("who saves what in memory", [self._writes, self._fingerprint]))
        super()._before_train()

    def _agree_on_writers(self, found: list[Any]) -> None:
        """Let those alone write whose variables are the chief's."""
        (_, of_chief), *others = found
        writers = [rank for rank, (writes, _) in enumerate(others, 1) if writes]
        lacking = [rank for rank in writers if of_chief is None or found[rank][1] != of_chief]
        self._has_copies = len(lacking) < len(writers)
        rank = 0 if self.trainer.peers is None else self.trainer.peers.rank
        if rank in lacking:
            self._writes = False
            self._claim.release()
        if rank == 0 and lacking:
            logger.warning(
                f"Checkpoints in memory are lost with the machine of worker 0: worker {lacking[0]} has other variables "
                "or values, such as states of the optimizer that are spread over the workers."
            )

    def _variables_here(self) -> str | None:
        """Return a fingerprint of the variables that this worker saves; None if some of them are its own state."""
        if getattr(getattr(self.trainer, "builder", None), "own_state", None):
            return None
        names = sorted(variable.op.name for variable in tf.global_variables())
        return hashlib.sha256("\n".join(names).encode()).hexdigest()

    def _write_graph(self) -> None:
        """Leave out the graph, which is beside the checkpoints on disk."""

    def _trigger(self) -> None:
        if self._is_active:
            super()._trigger()

    def _after_train(self) -> None:
        if self._is_active:
            super()._after_train()

    def _remembered(self) -> dict[str, Any]:
        remembered = super()._remembered()
        peers = self.trainer.peers
        if peers is None or not self._has_copies:
            return remembered
        # The callbacks whose state it is may run in the chief alone.
        return peers.broadcast("the states of callbacks", remembered)

    def _report(self, prefix: str) -> None:
        logger.debug(f"Model saved to {prefix}.")
