"""What strategies know of other workers; what comes out is in tests/estimator/test_cluster_run.py."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.device_values import MEAN, SUM, per_device
from tests.helpers.sessions import cpu_session
from tests.helpers.strategies import ON_READ, in_scope
from tpack.distribute.cross_tower_ops import ReductionToOneDeviceCrossTowerOps
from tpack.distribute.multi_worker import WorkersCrossTowerOps
from tpack.distribute.strategies import CollectiveAllReduceStrategy, ParameterServerStrategy
from tpack.errors import ConfigError
from tpack.multi_worker.all_reduce import copy_from_worker
from tpack.multi_worker.worker_group import WorkerGroup


def test_strategies_are_told_of_workers(graph):
    workers = {"worker": ["a:1", "b:1"]}
    collective = CollectiveAllReduceStrategy(devices=["/cpu:0", "/cpu:1"])
    assert (collective.num_towers, collective.between_graph, collective.should_checkpoint) == (2, False, True)
    collective.configure(cluster_spec=workers, task_type="worker", task_id=1)
    assert (collective.num_towers, collective.num_workers) == (4, 2)
    assert (collective.between_graph, collective.should_init, collective.should_checkpoint) == (True, True, False)
    assert not collective.should_save_summary
    assert "of each of 2 workers" in repr(collective)
    servers = ParameterServerStrategy()
    servers.configure(None, tf.train.ClusterSpec({**workers, "ps": ["c:1", "d:1"]}), "worker", 1)
    assert servers.parameter_devices == [f"/job:ps/task:{index}/device:CPU:0" for index in range(2)]
    assert (servers.num_towers, servers.should_init) == (1, False)
    for strategy, given, message in [
        (ParameterServerStrategy(), (workers, "worker", 0), "got no parameter server: expected one"),
        (CollectiveAllReduceStrategy(), ({**workers, "ps": ["c:1"]}, "ps", 0), "expected a process that trains"),
        (CollectiveAllReduceStrategy(), (workers, "worker", 2), "index=2"),
        (CollectiveAllReduceStrategy(), (None, "worker", 0), "got the task 'worker' 0 without cluster_spec"),
        (CollectiveAllReduceStrategy(devices=["/job:worker/cpu:0"]), (workers, "worker", 0), "without job and task"),
    ]:
        with pytest.raises(ConfigError, match=message):
            strategy.configure(None, *given)
    one = CollectiveAllReduceStrategy()
    one.configure(cluster_spec={"worker": ["a:1"]}, task_type="worker", task_id=0)
    assert not one.between_graph


@pytest.mark.parametrize(("op", "wanted"), [(SUM, [6.0, 60.0]), (MEAN, [3.0, 30.0])])
def test_a_worker_that_is_alone_reduces_as_one_machine_does(op, wanted, graph):
    ops = WorkersCrossTowerOps(ReductionToOneDeviceCrossTowerOps(), WorkerGroup([""], 0, "run"))
    values = [per_device(np.array([2.0, 4.0], np.float32) * scale) for scale in (1, 10)]
    reduced = ops.batch_reduce(op, [(value, value) for value in values])
    assert ops.batch_reduce(op, []) == []
    with cpu_session(graph) as session:
        session.run(tf.global_variables_initializer())
        assert [session.run(list(value.index.values())) for value in reduced] == [[each] * 2 for each in wanted]
        assert session.run(ops.over_workers(tf.constant(5.0), op)) == 5.0
    assert [value.devices for value in reduced] == [value.devices for value in values]
    assert isinstance(ops.inner, ReductionToOneDeviceCrossTowerOps)


def test_a_copy_from_a_worker_sets_the_variable_of_each_tower(session8):
    with in_scope(2):
        seen = tf.get_variable(
            "seen", [2], trainable=False, synchronization=ON_READ, aggregation=tf.VariableAggregation.MEAN
        )
    tasks = ["/job:localhost/task:0"] * 2
    sent = [tf.constant(["seen"]), tf.constant([3.0, 5.0])]
    session8.run(WorkerGroup(tasks, 0, "run").put("variables", 1, sent))
    session8.run(copy_from_worker(WorkerGroup(tasks, 1, "run"), [seen]))
    for component in seen.components:
        np.testing.assert_array_equal(session8.run(component), [3.0, 5.0])
