"""Steps that a loop in the graph makes, held against the same steps made one by one."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.compat.operations import loop_in_graph
from tpack.errors import ConfigError
from tpack.step.fetch_plan import Way
from tpack.step.loop_graph import LoopGraph, LoopPlan
from tpack.tfutils.graph_lookup import get_global_step_var

NUM_STEPS = 9


def old_loop(value):
    """Multiply three times, in a loop of TensorFlow 1."""
    return loop_in_graph(
        lambda turn, _: turn < 3,
        lambda turn, held: (turn + 1, held * 1.01),
        (tf.constant(0), tf.convert_to_tensor(value)),
    )[1]


class Model:
    """A step of all kinds: two devices, a queue, a dataset, random numbers, loops and branches, a ref variable."""

    def __init__(self):
        with tf.device("/device:CPU:1"):
            weights = tf.get_variable("weights", initializer=np.float32([1, 2]), use_resource=True)
            noise = tf.random_uniform([], seed=3)
            by_reference = tf.get_variable("by_reference", initializer=np.float32(1), use_resource=False)
        queue = tf.FIFOQueue(100, [tf.float32], [[]])
        self.iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(100))
        x, y = queue.dequeue(), tf.cast(self.iterator.get_next(), tf.float32)
        branch = tf.cond(x > 4, lambda: x * 2, lambda: x + tf.random_uniform([], seed=5))
        # Read once, and before the update, which depends on it.
        value = weights.read_value()
        new_loop = tf.while_loop(lambda turn, _: turn < 3, lambda turn, held: (turn + 1, held + x), [0, value])[1]
        self.cost = tf.reduce_sum(new_loop * value) + tf.reduce_sum(old_loop(value)) + branch + y + noise
        step = get_global_step_var()
        rate = tf.train.exponential_decay(1e-4, step, 3, 0.9)
        train = tf.train.MomentumOptimizer(rate, 0.9).minimize(self.cost, var_list=[weights])
        with tf.control_dependencies([train]):
            self.each = [train, tf.assign_add(step, 1).op, tf.assign_add(by_reference, self.cost).op]
        self.last = [self.cost, tf.summary.histogram("h", value * x), tf.summary.scalar("s", old_loop(x))]
        self._fill = queue.enqueue_many([np.arange(1, 50, dtype=np.float32)])
        self.variables = [weights, by_reference, step]

    def start(self, session):
        variables = [tf.global_variables_initializer(), tf.local_variables_initializer(), self.iterator.initializer]
        for operation in (variables, self._fill):
            session.run(operation)

    def result(self, session, values):
        return [np.asarray(value).tobytes() for value in [*values, *session.run(self.variables)]]


@pytest.mark.parametrize("rewrites", [True, False])
@pytest.mark.parametrize(
    "way", [Way(thread, in_loop) for thread in (False, True) for in_loop in (False, True)], ids=str
)
def test_several_steps_are_the_steps_one_by_one(graph, rewrites, way):
    model = Model()
    several = LoopGraph(model.each, model.last)
    with cpu_session(graph, num_cpus=2, rewrites=rewrites) as session:
        model.start(session)
        for _ in range(NUM_STEPS - 1):
            session.run(model.each)
        one_by_one = model.result(session, session.run([model.last, model.each])[0])
    with cpu_session(graph, num_cpus=2, rewrites=rewrites) as session:
        model.start(session)
        nothing, values = LoopPlan(session, several, []), LoopPlan(session, several, [model.last])
        nothing.use(way)
        values.use(way)
        assert nothing.run(4) == [4]
        assert nothing.run(1) == [1]
        made, last = values.run(NUM_STEPS - 5)
        assert made == NUM_STEPS - 5
        assert model.result(session, last) == one_by_one


class Calls:
    """Counts calls from the graph."""

    def __init__(self, do=lambda number: None):
        self.number = 0
        self._do = do

    def tensor(self):
        return tf.numpy_function(self, [], tf.int64)

    def __call__(self):
        self.number += 1
        self._do(self.number)
        return self.number


def plan_in(way, *args):
    plan = LoopPlan(*args)
    plan.use(way)
    return plan


IN_LOOP = Way(in_loop=True)


@pytest.mark.parametrize("way", [Way(), IN_LOOP], ids=str)
def test_what_is_wanted_of_the_last_step_runs_in_that_step_alone_and_where_it_is_wanted(graph, way):
    of_each, of_last = Calls(), Calls()
    each, last = of_each.tensor(), of_last.tensor()
    several = LoopGraph([each.op], [last + each])
    with cpu_session(graph) as session:
        session.run(tf.local_variables_initializer())
        assert plan_in(way, session, several, [each.op, several.num_made]).run(5) == [5, None, 5]
        assert (of_each.number, of_last.number) == (5, 0)
        (wanted,) = several.kept
        assert plan_in(way, session, several, [[], graph.get_tensor_by_name(wanted)]).run(5) == [5, [], 11]
        assert (of_each.number, of_last.number) == (10, 1)


@pytest.mark.parametrize("way", [Way(), IN_LOOP], ids=str)
def test_steps_that_are_stopped_end_after_the_step_that_is_being_made(graph, way):
    def stop(number):
        if number == 3:
            several.is_stopped = True
            session.run(several.stop)

    calls = Calls(stop)
    value = calls.tensor()
    several = LoopGraph([value.op], [value])
    with cpu_session(graph) as session:
        session.run(tf.local_variables_initializer())
        plan = plan_in(way, session, several, [value, several.num_made])
        assert plan.run(10) == [3, None, 3]
        assert plan.run(10) == [0, None, 0]


def test_a_loop_ends_after_the_step_that_has_said_so(graph):
    switches = [tf.Variable(True, collections=[tf.GraphKeys.LOCAL_VARIABLES], use_resource=True) for _ in range(2)]
    value = Calls().tensor()
    each = [switches[0].assign(True).op, switches[1].assign(value < 3).op]
    several = LoopGraph(each, [value], goes_on=switches)
    with cpu_session(graph) as session:
        session.run(tf.local_variables_initializer())
        plan = plan_in(IN_LOOP, session, several, [value, several.num_made])
        assert plan.run(2) == [2, 2, 2]
        assert plan.run(10) == [1, None, 1]
        assert plan.run(10) == [0, None, 0]


@pytest.mark.parametrize(
    ("make", "goes_on", "ways"),
    [
        (lambda: tf.no_op(), 0, {"auto": [(0, 0), (1, 0), (0, 1)], "pool": [(0, 0), (0, 1)], "caller": [(1, 0)]}),
        (lambda: tf.random_uniform([]).op, 0, {"auto": [(0, 0), (1, 0)], "pool": [(0, 0)], "caller": [(1, 0)]}),
        (lambda: tf.no_op(), 1, {"auto": [(0, 1), (1, 1)], "pool": [(0, 1)], "caller": [(1, 1)]}),
    ],
    ids=["plain", "with a state", "ends itself"],
)
def test_the_loop_is_offered_where_steps_can_take_turns_or_it_ends_itself(graph, make, goes_on, ways):
    switch = tf.Variable(True, collections=[tf.GraphKeys.LOCAL_VARIABLES], use_resource=True)
    several = LoopGraph([make()], goes_on=[switch] * goes_on)
    with cpu_session(graph) as session:
        plan = LoopPlan(session, several, [])
        assert {executor: plan.ways(executor) for executor in ways} == ways
        assert plan.way.in_loop == bool(goes_on)


@pytest.mark.parametrize("way", [Way(), IN_LOOP], ids=str)
def test_all_steps_of_a_traced_run_are_recorded(graph, way):
    value = tf.negative(tf.get_variable("w", initializer=2.0, use_resource=True).read_value(), name="negated")
    several = LoopGraph([value.op], [value])
    with cpu_session(graph, rewrites=False) as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        metadata = tf.RunMetadata()
        plan = plan_in(way, session, several, [value, several.num_made])
        assert plan.run_traced(3, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata) == [3, -2.0, 3]
        names = [node.node_name for stats in metadata.step_stats.dev_stats for node in stats.node_stats]
        assert sum(name.endswith("negated") for name in names) == 3


def test_what_nobody_announced_is_an_error(graph):
    several = LoopGraph([tf.no_op("step")])
    with pytest.raises(
        ConfigError, match="a run of several steps fetches other:0, which with_several_steps did not announce"
    ):
        several.in_place_of(tf.constant(1, name="other"))


def test_steps_that_are_fed_are_an_error(graph):
    fed = tf.placeholder(tf.float32, name="fed")
    with pytest.raises(ConfigError, match="each of them is fed data, at fed"):
        LoopGraph([tf.identity(fed).op])


def test_a_variable_that_is_made_after_something_is_an_error(graph):
    with tf.control_dependencies([tf.no_op("before")]):
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], name="late")
    with pytest.raises(ConfigError, match="late, which all of them use, runs after before"):
        LoopGraph([tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32).op])
