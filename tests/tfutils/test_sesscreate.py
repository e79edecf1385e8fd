"""Session creators: the session has every device that the graph asks for, or there is none."""

import os
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.partition_graphs import run_with_devices
from tpack.compat.operations import mark_for_compilation
from tpack.errors import ConfigError, DeviceError, WrongTypeError
from tpack.reduction.sums import sum_tensors
from tpack.tfutils import sesscreate
from tpack.tfutils.sesscreate import (
    NewSessionCreator,
    ReuseSessionCreator,
    SessionCreatorAdapter,
    get_default_sess_config,
)
from tpack.tower.devices import check_session_devices


def num_cpus(session: Any) -> int:
    return sum(device.device_type == "CPU" for device in session.list_devices())


def constant_on(device: str) -> Any:
    with tf.device(device):
        return tf.constant(3)


@pytest.mark.parametrize(("asked", "expected"), [(None, 6), (2, 6), (7, 7)])
def test_new_session_has_as_many_cpus_as_the_graph_or_the_user_wants(graph: Any, asked: Any, expected: int) -> None:
    constant = constant_on("/device:CPU:5")
    config = None if asked is None else tf.ConfigProto(device_count={"CPU": asked})
    with NewSessionCreator(config=config).create_session() as session:
        assert session.graph is graph
        assert num_cpus(session) == expected
        assert session.run(constant) == 3


def test_new_session_leaves_the_users_config_as_it_is(graph: Any) -> None:
    constant_on("/device:CPU:2")
    config = tf.ConfigProto(intra_op_parallelism_threads=1)
    with NewSessionCreator(config=config).create_session() as session:
        assert session._config.intra_op_parallelism_threads == 1
    assert config == tf.ConfigProto(intra_op_parallelism_threads=1)


def rewrites_of(**options: Any) -> Any:
    with NewSessionCreator(**options).create_session() as session:
        return session._config.graph_options.rewrite_options


@pytest.mark.parametrize(
    ("model", "passes"),
    [
        (lambda x: x + 1, []),
        (lambda x: x**3, ["pruning", "arithmetic"]),
        (lambda x: tf.matmul(x, x), ["pruning", "remap"]),
        (lambda x: tf.matmul(x, tf.transpose(x)), ["pruning", "arithmetic", "remap"]),
        (lambda x: tf.assign(tf.get_variable("v", [2, 2], use_resource=True), x @ x), ["pruning", "remap"]),
        (lambda x: tf.train.MomentumOptimizer(0.1, 0.9).minimize(x @ tf.get_variable("v", [2, 2])), []),
        (
            lambda x: tf.train.AdamOptimizer().minimize((x @ tf.get_variable("v", [2, 2])) ** 3),
            ["pruning", "arithmetic"],
        ),
    ],
)
def test_new_session_makes_the_rewrites_that_pay(graph: Any, model: Any, passes: list[str]) -> None:
    model(tf.placeholder(tf.float32, [2, 2]))
    rewrites = rewrites_of()
    assert list(rewrites.optimizers) == passes
    assert rewrites.disable_meta_optimizer == (not passes)
    assert rewrites.meta_optimizer_iterations == (rewrites.ONE if passes else rewrites.DEFAULT_NUM_ITERS)


def test_new_session_leaves_what_is_compiled_to_xla(graph: Any) -> None:
    product = (tf.placeholder(tf.float32, [2, 2]) @ tf.ones([2, 2])) ** 3
    for op in graph.get_operations():
        mark_for_compilation(op, "all")
    assert rewrites_of().disable_meta_optimizer
    tf.identity(product) ** 2
    assert list(rewrites_of().optimizers) == ["pruning", "arithmetic"]


def test_new_session_on_gpus_chooses_their_layout(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sesscreate, "list_gpus", lambda: ["/device:GPU:0"])
    config = tf.ConfigProto()
    with tf.device("/device:GPU:0"):
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.ones([2, 2]) @ tf.get_variable("v", [2, 2]))
    sesscreate.choose_rewrites(config, graph)
    assert list(config.graph_options.rewrite_options.optimizers) == ["pruning", "layout", "remap"]


def test_new_session_makes_the_rewrites_that_the_user_pins(graph: Any) -> None:
    tf.ones([2, 2]) ** 3
    kept = tf.ConfigProto()
    kept.graph_options.rewrite_options.constant_folding = kept.graph_options.rewrite_options.OFF
    assert rewrites_of(config=kept) == kept.graph_options.rewrite_options
    assert rewrites_of(grappler="on") == tf.ConfigProto().graph_options.rewrite_options
    assert rewrites_of(grappler="off").disable_meta_optimizer
    with pytest.raises(
        ConfigError, match="grappler='on': expected 'auto' with a config that has graph_options.rewrite_options"
    ):
        NewSessionCreator(config=kept, grappler="on")
    with pytest.raises(ConfigError, match="grappler"):
        NewSessionCreator(grappler="some")


def test_new_session_leaves_mixed_precision_to_tensorflow(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sesscreate, "is_mixed_precision_rewrite_enabled", lambda: True)
    config = tf.ConfigProto()
    sesscreate.choose_rewrites(config, graph)
    assert config == tf.ConfigProto()


def test_rewritten_graphs_compute_what_others_do(graph: Any) -> None:
    x = tf.constant(np.arange(12, dtype=np.float32).reshape(3, 4) / 10)
    product = tf.matmul(x, tf.transpose(x)) ** 3 + tf.nn.relu(x @ tf.ones([4, 3]) + tf.range(3.0))
    values = []
    for grappler in ("auto", "on", "off"):
        with NewSessionCreator(grappler=grappler).create_session() as session:
            values.append(session.run(product))
    np.testing.assert_allclose(values[0], values[2], rtol=1e-6)
    np.testing.assert_allclose(values[1], values[2], rtol=1e-6)


def test_sums_of_large_tensors_are_not_taken_apart(graph: Any) -> None:
    # As large as TensorFlow's pass for memory has to find them, and random, since it computes constants in advance.
    total = sum_tensors([tf.random.uniform([2**22, 4]) for _ in range(4)])
    power = tf.reduce_mean(total) ** 3
    with NewSessionCreator().create_session() as session:
        assert list(session._config.graph_options.rewrite_options.optimizers) == ["pruning", "arithmetic"]
        _, placed = run_with_devices(session, power)
    assert total.op.name in placed
    assert not [name for name in placed if "tmp_var" in name]


@pytest.mark.parametrize(
    ("changes", "num_tensors", "is_told"),
    [
        ({}, 3, True),
        ({}, 2, False),
        ({"optimizers": ["memory"]}, 3, True),
        ({"optimizers": ["pruning"]}, 3, False),
        ({"memory_optimization": "NO_MEM_OPT"}, 3, False),
        ({"memory_optimization": "SCHEDULING_HEURISTICS"}, 3, True),
        ({"disable_meta_optimizer": True}, 3, False),
    ],
)
def test_rewrites_that_change_the_order_of_sums_are_told(
    graph: Any, monkeypatch: pytest.MonkeyPatch, changes: Any, num_tensors: int, is_told: bool
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(sesscreate, "log_once", lines.append)
    tf.add_n([tf.placeholder(tf.float32, []) for _ in range(num_tensors)])
    config = tf.ConfigProto(graph_options={"rewrite_options": changes})
    config.graph_options.rewrite_options.SetInParent()
    NewSessionCreator(config=config).create_session().close()
    assert any("may not repeat bit by bit" in line for line in lines) == is_told


def test_new_session_lacking_a_device_is_closed_again(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = []

    def check(session: Any, graph: Any) -> None:
        sessions.append(session)
        check_session_devices(session, graph)

    monkeypatch.setattr(sesscreate, "check_session_devices", check)
    constant = constant_on("/device:GPU:99")
    with pytest.raises(DeviceError, match="/device:GPU:99"):
        NewSessionCreator().create_session()
    with pytest.raises(RuntimeError, match="closed"):
        sessions[0].run(constant)


def test_new_session_rejects_other_configs() -> None:
    with pytest.raises(WrongTypeError, match="^NewSessionCreator got config="):
        NewSessionCreator(config={"CPU": 8})


def test_reused_session_is_the_one_given(session8: Any) -> None:
    session = session8
    assert ReuseSessionCreator(session).create_session() is session


def test_adapter_passes_the_session_through_the_function(session8: Any) -> None:
    session = session8
    assert SessionCreatorAdapter(ReuseSessionCreator(session), lambda sess: ("wrapped", sess)).create_session() == (
        "wrapped",
        session,
    )


def test_all_are_session_creators_of_tensorflow(session8: Any) -> None:
    new, reuse = NewSessionCreator(), ReuseSessionCreator(session8)
    for creator in (new, reuse, SessionCreatorAdapter(new, id)):
        assert isinstance(creator, tf.train.SessionCreator)


def test_default_config_places_softly_and_lets_memory_grow() -> None:
    before = dict(os.environ)
    config = get_default_sess_config(0.5)
    assert config.allow_soft_placement
    assert config.gpu_options.allow_growth
    assert config.gpu_options.per_process_gpu_memory_fraction == 0.5
    assert get_default_sess_config().gpu_options.per_process_gpu_memory_fraction == 0.99
    assert dict(os.environ) == before


@pytest.mark.parametrize("fraction", [0, -0.5, 1.01])
def test_default_config_rejects_fractions_outside_of_0_to_1(fraction: float) -> None:
    with pytest.raises(ConfigError, match=r"mem_fraction=.*: expected a number greater than 0 and of at most 1"):
        get_default_sess_config(fraction)


@pytest.mark.parametrize("wrong", [5, None, "session", NewSessionCreator])
def test_what_makes_no_sessions_is_refused(wrong: Any) -> None:
    with pytest.raises(
        ConfigError, match="SessionCreatorAdapter got session_creator=.*: expected an object with create"
    ):
        SessionCreatorAdapter(wrong, id)
    with pytest.raises(ConfigError, match="SessionCreatorAdapter got func=5: expected a function"):
        SessionCreatorAdapter(NewSessionCreator(), 5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="ReuseSessionCreator got sess=5: expected a Session"):
        ReuseSessionCreator(5)
