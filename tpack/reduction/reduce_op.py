"""The two reductions of gradients: their sum and their mean over the towers."""

import enum


class ReduceOp(enum.Enum):
    """How the K gradients of one variable become one.

    A mean is the sum divided by K, after the summing. An algorithm that hands partial sums from device to device hands
    them over in the gradients' type: in float16 such a sum can overflow (beyond 65504) although the mean would not.
    """

    SUM = "sum"
    MEAN = "mean"

    def divisor(self, num_towers: int) -> int:
        """Return the number by which a sum over ``num_towers`` towers is divided."""
        return num_towers if self is ReduceOp.MEAN else 1
