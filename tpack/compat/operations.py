"""Operations that TensorFlow has no public function for, and changes of operations that exist."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tfv1
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from tpack.compat import private_names
from tpack.compat.private_names import check_names, missing_error, missing_names, private_module
from tpack.graph_copy import op_kinds

pywrap_tf_session = private_module("tensorflow.python.client.pywrap_tf_session")
c_api_util = private_module("tensorflow.python.framework.c_api_util")
framework_function = private_module("tensorflow.python.framework.function")
kernels = private_module("tensorflow.python.framework.kernels")
control_flow_ops = private_module("tensorflow.python.ops.control_flow_ops")

# OpKernelContext::Params::kNeverForward in tensorflow/core/framework/op_kernel.h.
_NEVER_FORWARD = -2
_nccl_numbers = itertools.count()
# Marks the additions that the arithmetic optimizer of grappler has dealt with.
_DO_NOT_JOIN = "_grappler_ArithmeticOptimizer_AddOpsRewriteStage"


def collective_all_reduce(
    tensor: tfv1.Tensor,
    *,
    group_size: int,
    group_key: int,
    instance_key: int,
    hint: str = "auto",
    timeout_secs: float = 0,
) -> tfv1.Tensor:
    """Sum ``tensor`` over the devices of a group with TensorFlow's collective op, on the device of ``tensor``.

    Args:
        tensor: this device's summand.
        group_size: the number of devices.
        group_key: one integer for each set of devices.
        instance_key: one integer for each tensor that is reduced; never used twice in a graph.
        hint: the implementation: ``"auto"``, ``"ring"`` or ``"nccl"``.
        timeout_secs: seconds to wait for the peers before the op fails; 0 waits for ever.
    """
    with tfv1.device(tensor.device):
        return tfv1.raw_ops.CollectiveReduce(
            input=tensor,
            group_size=group_size,
            group_key=group_key,
            instance_key=instance_key,
            merge_op="Add",
            final_op="Id",
            subdiv_offsets=[0],
            communication_hint=hint,
            timeout_seconds=timeout_secs,
        )


def nccl_all_sum(tensors: Sequence[tfv1.Tensor]) -> list[tfv1.Tensor]:
    """Sum tensors of one shape on different GPUs with NCCL; entry k of the result is on the GPU of input k."""
    # Of this process: a session may run several graphs.
    shared_name = f"tpack{next(_nccl_numbers)}"
    sums = []
    for tensor in tensors:
        with tfv1.device(tensor.device):
            sums.append(
                tfv1.raw_ops.NcclAllReduce(
                    input=tensor, reduction="sum", num_devices=len(tensors), shared_name=shared_name
                )
            )
    return sums


def loop_in_graph(
    condition: Callable[..., tfv1.Tensor], body: Callable[..., Any], start: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Build a loop of TensorFlow 1 in the current graph, with its towers and scopes; return the last values.

    Args:
        condition: takes the values; returns whether there is another turn.
        body: takes the values and returns those of the next turn; one turn after the other.
        start: the values before the first turn.
    """
    if not hasattr(control_flow_ops or None, "WhileContext"):
        if tfv1.control_flow_v2_enabled():
            check_names(private_names.LOOPS)
        return tuple(tfv1.while_loop(condition, body, start, parallel_iterations=1, back_prop=False))
    loop = control_flow_ops.WhileContext(parallel_iterations=1, back_prop=False)
    if loop.outer_context is None:
        tfv1.add_to_collection(tfv1.GraphKeys.WHILE_CONTEXT, loop)
    return tuple(loop.BuildLoop(condition, body, start, None, True))


def fix_summation_order(operations: Iterable[tfv1.Operation]) -> None:
    """Make every run of a graph add in the same order, so that sums of floating-point numbers repeat bit by bit.

    ``AddN`` of three and more tensors starts with the input that may be overwritten at that moment, and TensorFlow's
    optimizer joins neighbouring additions to larger ``AddN`` ops; attributes forbid both. The optimizer's pass for
    memory, where a device's memory seems short (256 MB for a CPU), adds each summand at once; sessions of
    `NewSessionCreator` have this pass off by default.

    Args:
        operations: only additions are changed. No session may have run them.
    """
    if missing_names(private_names.NODE_ATTRIBUTES):
        return
    never_overwrite = AttrValue(list=AttrValue.ListValue(i=[_NEVER_FORWARD, 0]))
    for operation in operations:
        if operation.type in op_kinds.ADDITIONS:
            operation._set_attr(_DO_NOT_JOIN, AttrValue(b=True))
        if operation.type == "AddN":
            operation._set_attr("_forward_input", never_overwrite)


def place_in_task(operations: Iterable[tfv1.Operation], task: str, container: str) -> None:
    """Place operations without a job in one task of a cluster, with their state in a container of its own.

    Args:
        operations: those with a job, and those colocated with them, stay. No session may have run them.
        task: such as ``"/job:worker/task:1"``.
        container: for variables, queues and the like, apart from those of other graphs there.
    """
    check_names(private_names.NODE_ATTRIBUTES)
    devices = {operation: operation.device for operation in operations}
    specs = {device: tfv1.DeviceSpec.from_string(device) for device in set(devices.values())}
    here = tfv1.DeviceSpec.from_string(task)
    full = {device: here.make_merged_spec(spec).to_string() for device, spec in specs.items() if spec.job is None}
    # A variable's initial value, which runs beside it, was made before it.
    elsewhere = {operation.name for operation, device in devices.items() if device not in full}
    own = AttrValue(s=container.encode())
    for operation, device in devices.items():
        if device not in full:
            continue
        node = operation.node_def
        if _runs_beside(operation, node, elsewhere):
            elsewhere.add(node.name)
            continue
        operation._set_device(full[device])
        if "container" in node.attr:
            operation._set_attr("container", own)


def _runs_beside(operation: tfv1.Operation, node: tfv1.NodeDef, others: set[str]) -> bool:
    """Tell whether an operation shares a task with one of others, by a colocation or a resource."""
    groups = node.attr["_class"].list.s if "_class" in node.attr else ()
    if any(group.decode().removeprefix("loc:@") in others for group in groups):
        return True
    # Few have an input from there, and only those are asked for its dtype.
    if others.isdisjoint(name.partition(":")[0] for name in node.input):
        return False
    return any(tensor.dtype == tfv1.resource and tensor.op.name in others for tensor in operation.inputs)


def mark_for_compilation(operation: tfv1.Operation, scope: str) -> None:
    """Let XLA compile an operation, which no session has run, as ``tf.xla.experimental.jit_scope`` does.

    Operations of one scope and device are compiled together. TensorFlow ignores the mark where it cannot compile.
    """
    check_names(private_names.NODE_ATTRIBUTES)
    operation._set_attr("_XlaCompile", AttrValue(b=True))
    operation._set_attr("_XlaScope", AttrValue(s=scope.encode()))


def is_marked_for_compilation(operation: tfv1.Operation) -> bool:
    """Tell whether XLA is to compile an operation."""
    try:
        return bool(operation.get_attr("_XlaCompile"))
    except ValueError:
        return False


def compiled_kernels(op_type: str, device_type: str) -> list[dict[str, set[int]]]:
    """Return XLA's kernels for an operation type on ``"CPU"`` or ``"GPU"``: the allowed dtypes of attributes for each.

    There are none until the first session of the process has run.
    """
    found = kernels.get_registered_kernels_for_op(op_type).kernel
    return [
        {rule.name: set(rule.allowed_values.list.type) for rule in kernel.constraint}
        for kernel in found
        if kernel.device_type == f"XLA_{device_type}_JIT"
    ]


def set_initial_value(variable: tfv1.Variable, value: tfv1.Tensor) -> None:
    """Change the initial value of a resource variable, which no session has initialised, and its initialiser.

    The value is computable before everything else, and of the variable's shape and dtype.
    """
    check_names(private_names.EDITED_GRAPHS)
    if variable.initializer.inputs[1] is not value:
        variable.initializer._update_input(1, value)
    variable._initial_value = value


def run_after(operation: tfv1.Operation, others: Iterable[tfv1.Operation]) -> None:
    """Let an operation that exists run after others, which must not depend on it."""
    check_names(private_names.EDITED_GRAPHS)
    operation._add_control_inputs(list(others))


def replace_input(operation: tfv1.Operation, index: int, tensor: tfv1.Tensor) -> None:
    """Let an operation that exists take another tensor, which must not depend on it."""
    check_names(private_names.EDITED_GRAPHS)
    operation._update_input(index, tensor)


def set_control_inputs(operation: tfv1.Operation, others: Iterable[tfv1.Operation]) -> None:
    """Let an operation that exists run after others, and no longer after those before."""
    check_names(private_names.EDITED_GRAPHS)
    operation._remove_all_control_inputs()
    run_after(operation, others)


def serialized_graph(graph: tfv1.Graph) -> bytes:
    """Return the ``GraphDef`` of a graph, without shapes, as it is written to files."""
    if missing_names(private_names.ADDED_NODES):
        return bytes(graph.as_graph_def().SerializeToString())
    with graph._lock, c_api_util.tf_buffer() as buffer, graph._c_graph.get() as c_graph:
        pywrap_tf_session.TF_GraphToGraphDef(c_graph, buffer)
        return bytes(pywrap_tf_session.TF_GetBuffer(buffer))


def add_nodes(
    graph: tfv1.Graph,
    nodes: tfv1.GraphDef,
    tensors: Mapping[str, tfv1.Tensor],
    operations: Mapping[str, tfv1.Operation],
) -> list[tfv1.Operation]:
    """Add operations to a graph just as they are described, outside all open blocks, and return them in order.

    Args:
        graph: the current graph.
        nodes: the operations; their names are new, and their functions are known to the graph.
        tensors: the inputs from outside, by their names in ``nodes``.
        operations: the same for control inputs.

    Raises:
        tf.errors.InvalidArgumentError: TensorFlow refuses the nodes.
    """
    if missing_names(private_names.ADDED_NODES):
        return _imported(graph, nodes, tensors, operations)
    options = c_api_util.ScopedTFImportGraphDefOptions()
    for name, tensor in tensors.items():
        op_name, _, index = name.partition(":")
        pywrap_tf_session.TF_ImportGraphDefOptionsAddInputMapping(
            options.options, op_name, int(index or 0), tensor._as_tf_output()
        )
    for name, operation in operations.items():
        pywrap_tf_session.TF_ImportGraphDefOptionsRemapControlDependency(options.options, name, operation._c_op)
    pywrap_tf_session.TF_ImportGraphDefOptionsSetValidateColocationConstraints(options.options, False)
    # No session may run the graph before Python knows its new operations.
    with tfv1.control_dependencies(None), graph._mutation_lock():
        buffer = pywrap_tf_session.TF_NewBufferFromString(nodes.SerializeToString())
        try:
            with graph._c_graph.get() as c_graph:
                results = pywrap_tf_session.TF_GraphImportGraphDefWithResults(c_graph, buffer, options.options)
        finally:
            pywrap_tf_session.TF_DeleteBuffer(buffer)
        c_api_util.ScopedTFImportGraphDefResults(results)
        # Python looks functions up when it writes a graph with shapes.
        for function in framework_function.from_library(nodes.library):
            function.add_to_graph(graph)
        # TensorFlow's import does more, which takes as long again and is only about open blocks.
        return [graph._create_op_from_tf_operation(op, compute_device=False) for op in graph.new_operations()]


def _imported(
    graph: tfv1.Graph,
    nodes: tfv1.GraphDef,
    tensors: Mapping[str, tfv1.Tensor],
    operations: Mapping[str, tfv1.Operation],
) -> list[tfv1.Operation]:
    """Do as `add_nodes`, by TensorFlow's own import, which takes longer."""
    # A control input is given as a tensor of its operation.
    given = {**tensors, **{f"^{name}": _tensor_of(operation) for name, operation in operations.items()}}
    with tfv1.control_dependencies(None), tfv1.device(None), graph.colocate_with(None, ignore_existing=True):
        names = [node.name for node in nodes.node]
        try:
            return list(tfv1.import_graph_def(nodes, given, names, name=""))
        except ValueError as error:
            # It knows no operations outside of the nodes to colocate with.
            missing = list(missing_names(private_names.ADDED_NODES))
            raise missing_error(private_names.ADDED_NODES, missing) from error


def _tensor_of(operation: tfv1.Operation) -> tfv1.Tensor:
    """Return an output of an operation, or of one that runs after it."""
    if operation.outputs:
        return operation.outputs[0]
    with tfv1.control_dependencies(None), tfv1.control_dependencies([operation]):
        return tfv1.constant(0, name="done")
