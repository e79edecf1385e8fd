"""The two reductions of gradients: their sum and their mean over the towers."""

import enum


class ReduceOp(enum.Enum):
    """How the K gradients of one variable become one.

    A mean is the sum divided by K, after the summing. In float16 the sum of large gradients can therefore overflow
    (beyond 65504) although their mean would not: scale the loss, or reduce in a wider type.
    """

    SUM = "sum"
    MEAN = "mean"

    def divisor(self, num_towers: int) -> int:
        """Return the number by which a sum over ``num_towers`` towers is divided."""
        return num_towers if self is ReduceOp.MEAN else 1
