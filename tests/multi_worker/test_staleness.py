import tensorflow.compat.v1 as tf

from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.staleness import Progress


def follows(op, name):
    """Tell whether an operation runs after another, or what it takes does."""
    before = [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
    return any(each.name == name or follows(each, name) for each in before)


def test_a_worker_counts_its_own_steps_and_reads_those_of_all():
    with tf.Graph().as_default() as graph:
        progress, signal = Progress(1, 3), StopFlag()
        step = progress.build(tf.no_op(name="update"), signal)
        counted = [op for op in graph.get_operations() if op.type == "AssignAddVariableOp"]
    assert [op.inputs[0].op.name for op in counted] == ["progress/worker1", "progress/word"]
    assert all(follows(op, "update") for op in counted)
    assert all(follows(progress.steps.op, op.name) for op in counted)
    assert {v.device for v in progress.variables} == {"/job:ps/task:0/device:CPU:0"}
    assert progress.steps.shape == [3]
    assert signal.total is not None
    assert step.type == "NoOp"
