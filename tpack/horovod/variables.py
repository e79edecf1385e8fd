"""Values of variables, copied from one worker to all."""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError
from tpack.horovod.collective import begin
from tpack.horovod.process_sets import ProcessSet, global_process_set
from tpack.horovod.sessions import collective_names
from tpack.multi_worker.all_reduce import copy_from_worker
from tpack.utils.validation import check_arguments, check_count


@check_arguments
def broadcast_variables(
    variables: Sequence[tf.Variable],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> tf.Operation:
    """Return an operation that copies the values of variables from one worker to all, by their names.

    Args:
        variables: the same in all workers; their order does not matter.
        root_rank: the rank of the worker that has the values, among all.
        process_set: the workers that take part.
        inplace: without a meaning here: values are never copied more than once.

    Raises:
        ConfigError: The root is no worker of the set.
        CollectiveError: In its first run, workers have other variables; the message names them.
    """
    check_count("broadcast_variables", "root_rank", root_rank, 0)
    kinds = sorted(f"{each.op.name} {each.dtype.base_dtype.name} {each.shape}" for each in variables)
    about = f"from {root_rank}: {', '.join(kinds)}"
    call = begin("broadcast_variables", None, "HorovodBroadcastVariables", process_set, about)
    ranks = process_set.ranks or []
    root = ranks.index(root_rank) if root_rank in ranks else root_rank
    copied = copy_from_worker(call.group, variables, root=root, name=call.queue)
    known = collective_names.here()
    known.facts[copied.name] = call.fact
    known.needed.clear()
    return copied


@check_arguments
def broadcast_(
    variables: Sequence[tf.Variable],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """Copy the values of variables from one worker to all, and return them after that, in the order given."""
    copied = broadcast_variables(variables, root_rank, process_set)
    with tf.control_dependencies([copied]):
        return [variable.read_value() for variable in variables]


@check_arguments
def broadcast_global_variables(root_rank: int) -> tf.Operation:
    """Return an operation that copies the values of all global variables from one worker to all.

    Args:
        root_rank: its rank.

    Raises:
        GraphBuildError: Operations run eagerly.
        ConfigError: The root is no worker.
    """
    check_count("broadcast_global_variables", "root_rank", root_rank, 0)
    if tf.executing_eagerly():
        raise GraphBuildError(
            "hvd.broadcast_global_variables() does not support eager execution: expected a graph; use "
            "hvd.broadcast_variables(variables, root_rank) in one"
        )
    return broadcast_variables(tf.global_variables(), root_rank)


@check_arguments
class BroadcastGlobalVariablesHook(tf.train.SessionRunHook):
    """Copies the values of all global variables from one worker to all when a session has them.

    Args:
        root_rank: the rank of that worker.
        device: the device of the copies; empty for those of the variables.
        process_set: the workers that take part.
    """

    def __init__(self, root_rank: int, device: str = "", process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        check_count(self, "root_rank", root_rank, 0)
        self._root_rank, self._device, self._process_set = root_rank, device, process_set
        self.bcast_op: tf.Operation | None = None

    def begin(self) -> None:
        """Build the copy, once in each graph."""
        if self.bcast_op is None or self.bcast_op.graph is not tf.get_default_graph():
            with tf.device(self._device):
                self.bcast_op = broadcast_variables(tf.global_variables(), self._root_rank, self._process_set)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Copy the values."""
        session.run(self.bcast_op)
