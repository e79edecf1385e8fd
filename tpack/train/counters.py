"""What a trainer tells of its loop: the names that scripts and callbacks use."""

from tpack.train.loop import TrainLoop


class LoopCounters:
    """Read the counters of a loop as properties.

    Attributes:
        loop: the loop.
    """

    loop: TrainLoop

    @property
    def epoch_num(self) -> int:
        """The current epoch, counted from 1; ``starting_epoch - 1`` before the first."""
        return self.loop.epoch_num

    @property
    def global_step(self) -> int:
        """How many steps are finished in all runs."""
        return self.loop.global_step

    @property
    def local_step(self) -> int:
        """How many steps of the current epoch are finished."""
        return self.loop.local_step

    @property
    def steps_per_epoch(self) -> int:
        """Steps in each epoch."""
        return self.loop.steps_per_epoch

    @property
    def starting_epoch(self) -> int:
        """The first epoch of this run."""
        return self.loop.starting_epoch

    @property
    def max_epoch(self) -> int:
        """The last epoch."""
        return self.loop.max_epoch
