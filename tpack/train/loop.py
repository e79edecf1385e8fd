"""Where training stands: epochs and steps, and what they run to."""

from tpack.errors import ConfigError


class TrainLoop:
    """The counters of one training.

    An epoch lasts from `before_epoch` until after `trigger_epoch`: in the `trigger_epoch` of epoch 3, ``epoch_num`` is
    3.

    Attributes:
        steps_per_epoch: steps in each epoch.
        starting_epoch: the number of the first epoch of this run, counted from 1.
        max_epoch: the number of the last epoch.
        starting_step: how many steps of the first epoch an earlier run has finished.
        epoch_num: the current epoch; ``starting_epoch - 1`` before the first.
        local_step: how many steps of the current epoch are finished.
        global_step: how many steps are finished in all runs.
    """

    def __init__(self) -> None:
        self.steps_per_epoch = 0
        self.starting_epoch = 1
        self.max_epoch = 0
        self.starting_step = 0
        self.epoch_num = 0
        self.local_step = 0
        self.global_step = 0

    def config(self, steps_per_epoch: int, starting_epoch: int, max_epoch: int, *, starting_step: int = 0) -> None:
        """Set what is to be trained.

        Raises:
            ConfigError: A number is not an integer, or below its smallest value.
        """
        numbers = (("steps_per_epoch", steps_per_epoch, 1), ("starting_epoch", starting_epoch, 1))
        for name, value, smallest in (*numbers, ("max_epoch", max_epoch, 0), ("starting_step", starting_step, 0)):
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise ConfigError(f"{name} must be an integer of at least {smallest}, got {value!r}")
        self.steps_per_epoch = steps_per_epoch
        self.starting_epoch = starting_epoch
        self.max_epoch = max_epoch
        self.starting_step = starting_step
        self.epoch_num = starting_epoch - 1

    def start_epoch(self, epoch_num: int) -> None:
        """Enter an epoch; the first one goes on where the earlier run was."""
        self.epoch_num = epoch_num
        self.local_step = self.starting_step if epoch_num == self.starting_epoch else 0

    def finish_step(self) -> None:
        """Count one finished step."""
        self.local_step += 1
        self.global_step += 1

    @property
    def epoch_finished(self) -> bool:
        """Whether all steps of the current epoch are finished."""
        return self.local_step >= self.steps_per_epoch
