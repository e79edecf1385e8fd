"""Keep the copies of replicated variables with the main tower's."""

from typing import Any

from tpack.callbacks.base import Callback


class ReplicaSync(Callback):
    """Copy the main tower's variables to the other towers before each epoch.

    Callbacks know the main tower's variables and change them before training or after an epoch, such as weights that
    they load or clip. By the first step of the next epoch every tower has the change, whatever the order of callbacks.
    Statistics that each tower gathers for itself, such as those of batch normalisation, begin each epoch alike, too.

    Args:
        sync_op: copies the variables.
    """

    _chief_only = False

    def __init__(self, sync_op: Any) -> None:
        self._sync_op = sync_op

    def _before_epoch(self) -> None:
        self.trainer.sess.run(self._sync_op)
