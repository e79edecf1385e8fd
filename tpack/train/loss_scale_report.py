"""Tell the monitors how the scaling of the cost goes."""

from tpack.callbacks.base import Callback
from tpack.graph_builder.loss_scale import DynamicLossScale
from tpack.utils import logger


class LossScaleReport(Callback):
    """Put ``loss_scale``, the current factor, and ``skipped_steps``, their number since the first step, each epoch.

    An epoch whose steps were all skipped is worth a warning: the gradients themselves are infinite or NaN then.

    Args:
        loss_scale: the factor and its counters.
    """

    _chief_only = False

    def __init__(self, loss_scale: DynamicLossScale) -> None:
        self._scale, _, self._skipped_steps = loss_scale.variables
        self._skipped_before = 0
        self._steps_before = 0

    def _before_train(self) -> None:
        self._skipped_before = int(self.trainer.sess.run(self._skipped_steps))
        self._steps_before = self.global_step

    def _trigger_epoch(self) -> None:
        scale, skipped = self.trainer.sess.run([self._scale, self._skipped_steps])
        self.trainer.monitors.put_scalar("loss_scale", float(scale))
        self.trainer.monitors.put_scalar("skipped_steps", int(skipped))
        num_steps, num_skipped = self.global_step - self._steps_before, int(skipped) - self._skipped_before
        if num_skipped == num_steps > 0:
            logger.warning(
                f"All {num_steps} steps of epoch {self.epoch_num} were skipped, since their gradients are not finite: "
                "nothing was learned. If this goes on, the cost itself is infinite or NaN"
            )
        self._skipped_before, self._steps_before = int(skipped), self.global_step
