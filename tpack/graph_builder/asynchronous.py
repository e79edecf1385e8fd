"""K towers that share variables and update them without waiting for each other."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat import run_after
from tpack.graph_builder.base import BuildResult, GradFn, OptimizerFn
from tpack.graph_builder.parameter_server import SharedVariablesBuilder
from tpack.tfutils.optimizer_clone import check_optimizer


class AsyncMultiGPUBuilder(SharedVariablesBuilder):
    """Applies each tower's gradients on their own, in whatever order they are ready.

    A step makes K updates. A tower may read a variable before or after another tower's update, so two runs differ; use
    a synchronous builder where that matters. Numbers that the optimizer has one of, such as Adam's beta powers, are
    advanced in turn, so that they count every update.

    Args:
        towers: how many towers, or the numbers of their GPUs.
        scale_gradient: multiply gradients by 1/K, so that the K updates of a step together are as large as one.
        ps_device: ``"cpu"`` puts all variables on the CPU, ``"gpu"`` balances them over the towers' devices.

    Raises:
        ConfigError: The arguments cannot be understood.
        DeviceError: A GPU that the machine, having GPUs, does not have.
    """

    def __init__(self, towers: int | Sequence[int], scale_gradient: bool = True, *, ps_device: str = "cpu") -> None:
        super().__init__(towers, ps_device)
        self._scale_gradient = scale_gradient

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers and a train op that runs all K updates.

        Args:
            grad_fn: see `GraphBuilder.build`.
            optimizer_fn: see `GraphBuilder.build`.

        Returns:
            The train op and the K towers.

        Shapes:
            K x N gradients, each of its variable's shape.

        Raises:
            TowerMismatchError: The towers returned gradients of different variables.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.

        Source:
            tensorpack's builder of the same name; it applies variable by variable, which advances Adam's beta powers N
            times as fast as this does.
        """
        towers = self._build_towers(grad_fn)
        optimizer = check_optimizer(optimizer_fn())
        scale = 1.0 / len(self.devices) if self._scale_gradient else 1.0
        updates: list[Any] = []
        turns = _Turns(tf.get_default_graph())
        for context, device, grads in zip(towers.contexts, self.devices, towers.outputs, strict=True):
            with tf.device(device):
                scaled = [(_scale(grad, scale), variable) for grad, variable in grads]
            # In its tower, so that only the main one writes summaries; outside the device scope, so that slots and
            # updates go to their variables.
            with context.revisited():
                updates.append(optimizer.apply_gradients(scaled, name=f"apply_gradients_{context.index}"))
            turns.next()
        return BuildResult(tf.group(*updates, name="train_op"), towers.contexts)


class _Turns:
    """Lets towers that change a number by reading and assigning it do so one after the other, so that none is lost."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._num_seen = len(graph.get_operations())
        self._assigned: dict[str, Any] = {}

    def next(self) -> None:
        """Let what was made since the last call read each number after the assignments that were made before."""
        made = self._graph.get_operations()[self._num_seen :]
        self._num_seen += len(made)
        first = {variable.initializer for variable in tf.global_variables() + tf.local_variables()}
        changes = [op for op in made if _is_assignment_of_a_number(op) and op not in first]
        assignments = {op.inputs[0].name: op for op in changes}
        for handle, assignment in assignments.items():
            if handle in self._assigned:
                for read in _reads(assignment.inputs[1].op, handle, made):
                    run_after(read, [self._assigned[handle]])
        self._assigned.update(assignments)


def _is_assignment_of_a_number(op: Any) -> bool:
    return op.type == "AssignVariableOp" and op.inputs[1].shape.rank == 0


def _reads(op: Any, handle: str, among: Sequence[Any]) -> list[Any]:
    """Return the operations that read a variable for the value of ``op``, of those that are asked for."""
    allowed, waiting, seen = set(among), [op], set()
    reads = []
    while waiting:
        op = waiting.pop()
        if op in seen or op not in allowed:
            continue
        seen.add(op)
        if op.type == "ReadVariableOp" and op.inputs[0].name == handle:
            reads.append(op)
        waiting.extend(tensor.op for tensor in op.inputs)
    return reads


def _scale(grad: Any, scale: float) -> Any:
    if scale == 1.0:
        return grad
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(grad.values * scale, grad.indices, grad.dense_shape)
    return grad * scale
