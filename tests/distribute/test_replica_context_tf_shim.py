"""Model code that knows of no strategy, in towers: TensorFlow's own functions meet there as the strategy's do."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.optimizers import OPTIMIZERS, REPRESENTATIVE
from tests.helpers.sessions import cpu_session
from tests.helpers.strategies import NONE, ON_READ, devices_of, in_scope, mirrored, started, tower_number
from tpack.distribute.contexts import get_tower_context
from tpack.distribute.optimizer import DistributedOptimizer
from tpack.distribute.strategies import OneDeviceStrategy, ParameterServerStrategy
from tpack.errors import StrategyError, TowerError, TowerMismatchError
from tpack.tfutils.gradproc import ScaleGradient
from tpack.tfutils.optimizer import apply_grad_processors

STRATEGIES = {
    "mirrored": mirrored,
    "one mirror": lambda: mirrored(1),
    "parameter server": lambda: ParameterServerStrategy(devices=devices_of(2)),
    "one device": lambda: OneDeviceStrategy("/cpu:1"),
}


class AMSGrad(tf.train.Optimizer):
    """An optimizer as users wrote it: slots, a counter in an attribute of its own, and tensors of ``_prepare``."""

    def __init__(self) -> None:
        super().__init__(use_locking=False, name="AMSGrad")
        self._power: Any = None
        self._rate: Any = None

    def _create_slots(self, var_list: Any) -> None:
        first = min(var_list, key=lambda v: v.name)
        if self._power is None or self._power.graph is not first.graph:
            with tf.colocate_with(first):
                self._power = tf.Variable(0.5, name="power", trainable=False)
        # In the order of a set, which is another one in each run.
        for variable in set(map(_Hashed, var_list)):
            self._zeros_slot(variable.it, "m", "m")
            self._zeros_slot(variable.it, "largest", self._name)

    def _prepare(self) -> None:
        self._rate = tf.constant(0.1)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        m = self.get_slot(var, "m")
        m_t = m.assign(0.5 * m + grad)
        largest = self.get_slot(var, "largest")
        largest_t = largest.assign(tf.maximum(largest, tf.abs(m_t)))
        update = var.assign_sub(self._rate * self._power * m_t / tf.sqrt(largest_t + 1e-3))
        return tf.group(update, m_t, largest_t)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._resource_apply_dense(tf.scatter_nd(indices[:, None], grad, var.shape), var)

    def _finish(self, update_ops: Any, name_scope: Any) -> Any:
        with tf.control_dependencies(update_ops), tf.colocate_with(self._power):
            return tf.group(self._power.assign(self._power * 0.9), name=name_scope)


class _Hashed:
    def __init__(self, it: Any) -> None:
        self.it = it

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


KINDS = {
    **{name: OPTIMIZERS[name] for name in REPRESENTATIVE},
    "adagrad_da": lambda: tf.train.AdagradDAOptimizer(0.1, tf.train.get_or_create_global_step()),
    "proximal_sgd": lambda: tf.train.ProximalGradientDescentOptimizer(0.1, l1_regularization_strength=0.01),
    "proximal_adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.01),
    "nesterov": lambda: tf.train.MomentumOptimizer(tf.Variable(0.1, trainable=False), 0.9, use_nesterov=True),
    "amsgrad": AMSGrad,
    "processed": lambda: apply_grad_processors(tf.train.AdamOptimizer(0.1), [ScaleGradient((".*", 2.0))]),
    "wrapped": lambda: DistributedOptimizer(
        apply_grad_processors(tf.train.AdamOptimizer(0.1), [ScaleGradient((".*", 2.0))])
    ),
}


def _losses() -> tuple[Any, Any]:
    """Return a loss of a dense variable and one of a table's rows, which are quadratic, so that gradients average."""
    context = get_tower_context()
    target = 2.0 if context is None or context.num_towers == 1 else 1.0 + 2 * context.tower_id
    kernel = tf.get_variable("dense/kernel", initializer=[1.0, -1.0, 0.5], use_resource=True)
    table = tf.get_variable("table", [4, 3], initializer=tf.ones_initializer(), use_resource=True)
    rows = tf.nn.embedding_lookup(table, [0, 2, 0])
    return tf.reduce_sum(tf.square(kernel - target)), tf.reduce_sum(tf.square(rows - target))


def _train_op(name: str, *, twice: bool) -> Any:
    """Do what a model_fn does that was written for one device."""
    dense, sparse = _losses()
    step = tf.train.get_or_create_global_step()
    optimizer = KINDS[name]()
    with tf.name_scope("train"):
        if not twice:
            return optimizer.minimize(dense + sparse, step)
        with tf.control_dependencies([optimizer.minimize(dense, step, var_list=tf.trainable_variables("dense"))]):
            return optimizer.minimize(sparse, step, var_list=tf.trainable_variables("table"))


def _trained(strategy: Any, name: str, *, twice: bool) -> dict[str, Any]:
    """Return all variables after three steps, each component by its own name."""
    with tf.Graph().as_default() as graph, cpu_session(graph, rewrites=False) as session:
        if strategy is None:
            train_op = _train_op(name, twice=twice)
        else:
            with strategy.scope():
                train_op = strategy.group(strategy.call_for_each_tower(_train_op, name, twice=twice))
        started(session)
        for _ in range(3):
            session.run(train_op)
        assert session.run(tf.train.get_global_step()) == (6 if twice else 3)
        components = [c for v in tf.global_variables() for c in getattr(v, "components", [v])]
        return {component.op.name: session.run(component) for component in components}


@pytest.mark.parametrize(
    ("name", "twice"),
    [*((name, False) for name in KINDS), *((name, True) for name in ("adam", "adagrad_da", "amsgrad", "wrapped"))],
)
def test_an_unchanged_optimizer_trains_in_towers_with_the_names_of_tensorflow(name: str, twice: bool) -> None:
    wanted = _trained(None, name, twice=twice)
    for kind in STRATEGIES if twice else ["mirrored"]:
        got = _trained(STRATEGIES[kind](), name, twice=twice)
        replicas = {f"{variable}/replica_1" for variable in wanted} if kind == "mirrored" else set()
        assert got.keys() == wanted.keys() | replicas, kind
        for component, value in got.items():
            expected = wanted[component.removesuffix("/replica_1")]
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6, err_msg=f"{kind}: {component}")


def test_a_loss_that_is_a_function_is_watched_by_whole_variables(session8: Any) -> None:
    def tower() -> Any:
        def loss() -> Any:
            weight = tf.get_variable("weight", initializer=8.0, use_resource=True)
            return tf.square(weight - 2 * tower_number())

        return tf.train.GradientDescentOptimizer(0.25).minimize(loss)

    with in_scope() as strategy:
        train_op = strategy.group(strategy.call_for_each_tower(tower))
    started(session8).run(train_op)
    (weight,) = tf.trainable_variables()
    assert session8.run(weight.components) == [8.0 - 0.25 * 2 * (8 - 3)] * 2


def test_slots_and_variables_of_an_optimizer_are_those_of_all_devices(session8: Any) -> None:
    optimizer = tf.train.AdamOptimizer(0.1)
    with in_scope() as strategy:
        strategy.call_for_each_tower(lambda: optimizer.minimize(sum(_losses())))
    variables = {variable.op.name: variable for variable in optimizer.variables()}
    kernel = tf.trainable_variables()[0]
    assert optimizer.get_slot(kernel, "m") is variables["dense/kernel/Adam"]
    assert variables["beta1_power"].devices == strategy.worker_devices
    session8.run(tf.variables_initializer(optimizer.variables()))
    assert session8.run([tf.is_variable_initialized(c) for v in variables.values() for c in v.components])
    with tf.variable_scope("dense/kernel/Adam", reuse=True):
        assert tf.get_variable("") is variables["dense/kernel/Adam"]
    with (
        tf.variable_scope("dense/kernel/replica_1/Adam", reuse=True),
        pytest.raises(ValueError, match="does not exist"),
    ):
        tf.get_variable("")


def test_variables_that_other_creators_see_are_named_as_tensorflow_named_them(graph: Any) -> None:
    created = []

    def note(next_creator: Any, **kwargs: Any) -> Any:
        variable = next_creator(**kwargs)
        created.append(variable.op.name)
        return variable

    with tf.variable_creator_scope(note), in_scope() as strategy:
        strategy.call_for_each_tower(lambda: tf.train.AdamOptimizer(0.1).minimize(_losses()[0]))
    slots = {"beta1_power", "beta2_power", "dense/kernel/Adam", "dense/kernel/Adam_1"}
    names = {"dense/kernel", "table", *slots}
    assert sorted(created) == sorted(names | {f"{name}/replica_1" for name in names})


def test_a_gradient_that_only_some_towers_have_is_an_error(graph: Any) -> None:
    def tower() -> Any:
        dense, sparse = _losses()
        loss = dense + sparse if get_tower_context().tower_id else dense
        return tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    with in_scope() as strategy, pytest.raises(TowerMismatchError, match="expected the same structure on all devices"):
        strategy.call_for_each_tower(tower)


def test_an_optimizer_in_a_condition_of_a_tower_is_an_error(graph: Any) -> None:
    def tower() -> Any:
        dense, _ = _losses()
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        return tf.cond(dense > 1, lambda: optimizer.apply_gradients([(1.0, tf.trainable_variables()[0])]), tf.no_op)

    with in_scope() as strategy, pytest.raises(TowerError, match="not in a function.* in a TensorFlow loop, condition"):
        strategy.call_for_each_tower(tower)


def test_an_optimizer_that_asks_for_more_than_a_strategy_has_is_an_error(graph: Any) -> None:
    def tower() -> Any:
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        return tf.train.experimental.MixedPrecisionLossScaleOptimizer(optimizer, "dynamic").minimize(_losses()[0])

    with in_scope() as strategy, pytest.raises(AttributeError, match="asks for 'call_for_each_replica' of <MirroredS"):
        strategy.call_for_each_tower(tower)


def test_tensorflow_sees_a_strategy_in_towers_only(graph: Any) -> None:
    seen = []

    def merge(strategy: Any) -> None:
        seen.append(tf.distribute.has_strategy())

    def tower() -> None:
        seen.append(tf.distribute.has_strategy())
        assert tf.distribute.get_strategy().num_replicas_in_sync == 1
        assert tf.distribute.get_replica_context().num_replicas_in_sync == 1
        assert tf.distribute.get_replica_context().replica_id_in_sync_group == get_tower_context().tower_id
        get_tower_context().merge_call(merge)
        seen.append(tf.distribute.has_strategy())

    with in_scope() as strategy:
        seen.append(tf.distribute.has_strategy())
        strategy.call_for_each_tower(tower)
        assert not tf.distribute.has_strategy()
        with pytest.raises(ZeroDivisionError):
            strategy.call_for_each_tower(lambda: 1 // 0)
        assert not tf.distribute.has_strategy()
    assert seen == [False, True, True, False, True, True]


def test_a_function_of_tensorflow_reads_the_components_of_each_tower(session8: Any) -> None:
    def tower() -> Any:
        with tf.control_dependencies([variable.assign(tower_number())]):
            return doubled()

    with in_scope() as strategy:
        variable = tf.get_variable("v", initializer=0.0, synchronization=ON_READ, use_resource=True)
        doubled = tf.compat.v2.function(lambda: variable * 2.0)
        values = strategy.unwrap(strategy.call_for_each_tower(tower))
    assert started(session8).run(values) == [2.0, 4.0]


def test_metrics_are_of_all_towers(session8: Any) -> None:
    def tower() -> Any:
        labels, predictions = ([1.0], [1.0]) if get_tower_context().tower_id == 0 else ([1.0] * 3, [0.0] * 3)
        return tf.metrics.accuracy(tf.constant(labels), tf.constant(predictions))

    with in_scope() as strategy:
        value, update = strategy.call_for_each_tower(tower)
        (value,), updates = strategy.unwrap(value), strategy.unwrap(update)
    started(session8).run(updates)
    assert session8.run(value) == 0.25


def test_a_moving_average_is_of_the_mean_over_towers(session8: Any) -> None:
    def tower() -> Any:
        value = tf.get_variable("value", initializer=0.0, synchronization=ON_READ, use_resource=True)
        with tf.control_dependencies([value.assign(tower_number())]):
            return tf.train.ExponentialMovingAverage(0.5).apply([value])

    with in_scope() as strategy:
        updates = strategy.unwrap(strategy.call_for_each_tower(tower))
    # Whoever runs one tower's part runs all.
    started(session8).run(updates[0])
    (average,) = [v for v in tf.global_variables() if v.op.name.startswith("value/Exp") and len(v.components) > 1]
    np.testing.assert_allclose(session8.run(average.components), [0.75, 0.75])


def test_a_layer_of_keras_synchronises_its_statistics(session8: Any) -> None:
    rows = np.array([[1.0, 2.0], [3.0, 5.0], [4.0, 8.0], [8.0, 1.0]], dtype="float32")

    def tower() -> Any:
        inputs = tf.constant(rows[2 * get_tower_context().tower_id :][:2])
        return tf.keras.layers.BatchNormalization(synchronized=True, epsilon=1e-3)(inputs, training=True)

    with in_scope() as strategy:
        outputs = strategy.unwrap(strategy.call_for_each_tower(tower))
    wanted = (rows - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-3)
    np.testing.assert_allclose(np.concatenate(started(session8).run(outputs)), wanted, rtol=1e-5)


def test_values_of_towers_are_reduced_and_so_are_their_gradients(session8: Any) -> None:
    def tower() -> Any:
        number = tower_number()
        total, (mean, count) = (
            tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, number),
            tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, (number**2, 1.0)),
        )
        return total, mean, count, tf.gradients(total * tower_number() + mean, number)[0]

    with in_scope() as strategy:
        parts = [strategy.unwrap(part) for part in strategy.call_for_each_tower(tower)]
    assert started(session8).run(parts) == [[3.0, 3.0], [2.5, 2.5], [1.0, 1.0], [2.0, 4.0]]


def test_what_tensorflow_asks_of_a_strategy(session8: Any) -> None:
    def meet(seen: Any, number: Any, variable: Any) -> Any:
        reduced = seen.extended.reduce_to(tf.distribute.ReduceOp.SUM, number, variable)
        (mean,) = seen.extended.batch_reduce_to("mean", [(number, variable)])
        added = seen.extended.update(variable, lambda v, a: v.assign_add(a), args=(reduced,), group=False)
        assert len(added) == 2
        assert len(seen.experimental_local_results(mean)) == 2
        with seen.extended.colocate_vars_with(variable):
            beside = tf.get_variable("beside", initializer=0.0, use_resource=True)
        assert beside.devices == variable.devices
        assert seen.extended.value_container(variable.components[1]) is variable
        assert seen.extended.value_container(5) == 5
        devices = seen.extended.non_slot_devices([variable])
        (ops,) = {len(seen.extended.update_non_slot(devices, tf.no_op, group=False))}
        assert ops == 2
        with pytest.raises(StrategyError, match="got reduce_op='max': expected tf.distribute.ReduceOp.SUM or MEAN"):
            seen.extended.reduce_to("max", number, variable)
        assert repr(seen) == repr(strategy)
        return seen.group(added), seen.extended.broadcast_to(seen.extended.read_var(variable), variable)

    def tower() -> Any:
        variable = tf.get_variable("v", initializer=1.0, aggregation=NONE, use_resource=True)
        return tf.distribute.get_replica_context().merge_call(meet, args=(tower_number(), variable))

    with in_scope() as strategy:
        operation, before = strategy.call_for_each_tower(tower)
    assert started(session8).run(strategy_parts(before)) == [1.0, 1.0]
    session8.run(operation)
    (variable,) = [variable for variable in tf.global_variables() if variable.op.name == "v"]
    assert session8.run(variable.components) == [4.0, 4.0]


def strategy_parts(value: Any) -> list[Any]:
    return list(value.index.values())
