import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.equivalence import one_tower, train
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.replicated_builder import MultiWorkerReplicatedBuilder
from tpack.multi_worker.worker_group import WorkerGroup

ALONE = WorkerGroup(["/job:worker/task:0"], 0, "run")


def test_one_worker_is_what_the_builder_of_one_machine_is():
    stop_flag = StopFlag()
    run = train(MultiWorkerReplicatedBuilder(2, ALONE, stop_flag=stop_flag), "adam", 2)
    for name, wanted in one_tower("adam", 2).weights[0].items():
        np.testing.assert_allclose(run.weights[0][name], wanted, rtol=1e-9, atol=1e-12)
        assert np.array_equal(run.weights[0][name], run.weights[1][name])
    # There is nobody to be told.
    assert stop_flag.total is None


def test_gradients_of_two_workers_are_exchanged_once_and_copied_to_each_tower(graph):
    group = WorkerGroup(["/job:worker/task:0", "/job:worker/task:1"], 1, "run")
    stop_flag = StopFlag()

    def grads():
        weight = tf.get_variable("w", [3])
        return [(weight * 2.0, weight)]

    def optimizer():
        return tf.train.GradientDescentOptimizer(0.1)

    result = MultiWorkerReplicatedBuilder(2, group, stop_flag=stop_flag).build(grads, optimizer)
    kinds = [(op.type, op.device) for op in graph.get_operations() if "Queue" in op.type and "V2" in op.type]
    there, here = "/job:worker/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0"
    # All in one bucket, sent once and taken once; what is sent goes through a queue of this worker.
    assert sorted(kinds) == sorted(
        [("FIFOQueueV2", here), ("FIFOQueueV2", there), ("QueueEnqueueV2", here), ("QueueDequeueV2", there)]
    )
    assert [tower.device for tower in result.towers] == ["/device:CPU:0", "/device:CPU:1"]
    assert stop_flag.total is not None
