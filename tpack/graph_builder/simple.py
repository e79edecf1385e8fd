"""The plain training graph: one tower on one device, without a name scope."""

from tpack.graph_builder.base import BuildResult, GradFn, GraphBuilder, OptimizerFn
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tower.context import TrainTowerContext
from tpack.tower.devices import resolve_device
from tpack.utils.validation import check_arguments


@check_arguments
class SimpleBuilder(GraphBuilder):
    """Builder of one tower.

    Args:
        device: the device; empty leaves placement to TensorFlow and the user.

    Raises:
        ConfigError: The name of the device is malformed.
        DeviceError: The machine has GPUs, but not this one.
    """

    def __init__(self, device: str = "") -> None:
        self._device = resolve_device(device)

    @property
    def devices(self) -> tuple[str, ...]:
        """The device, or an empty name."""
        return (self._device,)

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the tower and apply its gradients.

        Shapes:
            N gradients, each of its variable's shape.

        Raises:
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.
        """
        context = TrainTowerContext("", device=self._device or None)
        with context:
            grads = grad_fn()
        optimizer = check_optimizer(optimizer_fn())
        return BuildResult(optimizer.apply_gradients(list(grads), name="train_op"), (context,))
