"""Towers: what their function sees, which variables it gets, and what is left of it afterwards."""

import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers import preloaded
from tests.helpers.builders import make_towers
from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError, TowerError, TowerMismatchError
from tpack.tower.context import (
    Frame,
    PredictTowerContext,
    TowerContext,
    TrainTowerContext,
    current_frame,
    current_tower_context,
    entered,
    get_current_tower_context,
)
from tpack.tower.ownership import pair_variables

KEYS = tf.GraphKeys


def names(items):
    return [item.op.name for item in items]


def collected(key):
    return names(tf.get_collection(key))


# What a tower function sees.


@pytest.mark.parametrize(
    ("index", "total", "message"),
    [
        (2, 2, "index=2: expected the number of one of 2 towers"),
        (-1, 1, "index=-1: expected the number of one of 1 towers"),
        (0, 0, "TowerContext got total=0: expected an integer of at least 1"),
    ],
)
def test_an_index_that_is_not_below_the_total_is_an_error(index, total, message):
    with pytest.raises(ConfigError, match=message):
        TowerContext("t", True, index=index, total=total)


def test_scopes_give_name_variable_scope_and_device(graph):
    with tf.name_scope("around"), TrainTowerContext("tower1", "vs", index=1, total=2, device="/device:CPU:5"):
        constant = tf.constant(0, name="c")
        variable = tf.get_variable("v", [])
    assert constant.op.name == "tower1/c"
    assert variable.op.name == "vs/v"
    assert constant.device == variable.device == "/device:CPU:5"
    after = tf.constant(0, name="c")
    assert (after.op.name, after.device) == ("c", "")


def test_a_name_scope_is_reopened_and_not_made_unique(graph):
    for reuse in (False, True):
        with TowerContext("same", True, reuse=reuse):
            tf.constant(0, name="c")
    assert [op.name for op in graph.get_operations()] == ["same/c", "same/c_1"]


def test_empty_names_and_no_device_change_nothing(graph):
    scopes = tf.name_scope("ns"), tf.variable_scope("vs", auxiliary_name_scope=False), tf.device("/cpu:4")
    with scopes[0], scopes[1], scopes[2], TowerContext("", True):
        constant = tf.constant(0, name="c")
        variable = tf.get_variable("v", [])
    assert constant.op.name == "ns/c"
    assert variable.op.name == "vs/v"
    assert constant.device == "/device:CPU:4"


def test_a_device_function_places_each_op(graph):
    def by_type(op):
        return "/device:CPU:1" if op.type == "VarHandleOp" else "/device:CPU:2"

    with TowerContext("", True, device=by_type):
        assert tf.get_variable("v", []).device == "/device:CPU:1"
        assert tf.constant(0).device == "/device:CPU:2"


# The current tower.


def test_current_tower_is_there_inside_only(graph):
    assert get_current_tower_context() is None
    with TowerContext("", True) as context:
        assert context is current_tower_context() is get_current_tower_context()
    assert get_current_tower_context() is None
    with pytest.raises(TowerError, match=r"no tower is current here: expected .*; use 'with TowerContext"):
        current_tower_context()


def test_current_tower_belongs_to_graph_and_thread(graph):
    seen = []

    def look():
        with graph.as_default():
            seen.append(get_current_tower_context())

    with TowerContext("outer", True) as outer:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        with tf.Graph().as_default():
            assert get_current_tower_context() is None
            with TowerContext("inner", False) as inner:
                assert current_tower_context() is inner
        assert current_tower_context() is outer
    assert seen == [None]


def test_nested_towers_are_an_error_that_leaves_the_outer_one_alone(graph):
    with TowerContext("outer", True) as outer:
        inner = TowerContext("inner", False)
        with pytest.raises(TowerError, match="cannot enter prediction tower 'inner' .* inside training tower 'outer'"):
            inner.__enter__()
        assert current_tower_context() is outer
        assert tf.constant(0, name="c").op.name == "outer/c"
    with inner:
        assert current_tower_context() is inner


def test_a_tower_is_entered_once(graph):
    context = TowerContext("t", True)
    with context:
        pass
    with pytest.raises(TowerError, match="training tower 't' .* was used already: make a new context"):
        context.__enter__()


# Leaving a tower.


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_leaving_closes_every_scope_and_the_user_s_exception_comes_through(graph, error):
    tf.add_to_collection(KEYS.LOSSES, "before")
    raised = error("mine")
    with pytest.raises(error, match="mine") as caught, TrainTowerContext("t", "vs", device="/cpu:3"):
        tf.add_to_collection(KEYS.LOSSES, "inside")
        raise raised
    assert caught.value is raised
    assert get_current_tower_context() is None
    assert tf.get_variable_scope().name == ""
    constant, variable = tf.constant(0, name="c"), tf.get_variable("v", [])
    assert (constant.op.name, constant.device, variable.op.name) == ("c", "", "v")
    assert tf.get_collection(KEYS.LOSSES) == ["before", "inside"]


class BrokenExit:
    """A scope that fails when it is left."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        raise RuntimeError("closing failed")


def test_an_error_of_closing_does_not_hide_the_user_s_own(graph):
    with captured_log() as lines, pytest.raises(ZeroDivisionError), TowerContext("t", True) as context:
        context._scopes.enter_context(BrokenExit())
        raise ZeroDivisionError
    assert [line for line in lines if "Leaving training tower 't' (1 of 1) failed as well: closing failed" in line]
    assert tf.constant(0, name="c").op.name == "c"


def test_an_error_of_closing_is_raised_when_it_is_the_only_one(graph):
    with pytest.raises(RuntimeError, match="closing failed"), TowerContext("t", True) as context:
        context._scopes.enter_context(BrokenExit())
    assert get_current_tower_context() is None
    assert tf.constant(0, name="c").op.name == "c"


def test_entering_that_fails_leaves_no_scope_open(graph):
    tf.add_to_collection(KEYS.LOSSES, "before")
    with pytest.raises(ValueError, match="is not a valid root scope name"):
        TowerContext("not a name!", True, "vs", device="/cpu:3").__enter__()
    assert get_current_tower_context() is None
    assert tf.get_variable_scope().name == ""
    assert tf.constant(0).device == ""
    assert tf.get_collection(KEYS.LOSSES) == ["before"]


# Collections.


def fill(key, name):
    tf.add_to_collection(key, tf.constant(0, name=name))


@pytest.mark.parametrize("key", [KEYS.LOSSES, KEYS.REGULARIZATION_LOSSES])
@pytest.mark.parametrize("own_variables", [False, True])
def test_losses_of_others_are_out_of_sight(graph, key, own_variables):
    fill(key, "before")
    towers = make_towers(3, own_variables=own_variables)
    for tower in towers:
        with tower:
            assert tf.get_collection(key) == []
            fill(key, "loss")
            assert collected(key) == [f"{tower.name}/loss"]
    assert collected(key) == ["before", "tower0/loss"]
    assert [names(tower.get_collection_in_tower(key)) for tower in towers] == [[f"tower{k}/loss"] for k in range(3)]


@pytest.mark.parametrize("own_variables", [False, True])
def test_summaries_are_kept_from_the_main_tower_only(graph, own_variables):
    for tower in make_towers(3, own_variables=own_variables):
        with tower:
            tf.summary.scalar("s", tf.constant(0.0))
            fill("MOVING_SUMMARY_OPS", "update")
    assert [name.split("/")[0] for name in collected(KEYS.SUMMARIES)] == ["tower0"]
    assert collected("MOVING_SUMMARY_OPS") == ["tower0/update"]


@pytest.mark.parametrize(
    ("own_variables", "expected"), [(False, ["tower0/u"]), (True, ["tower0/u", "tower1/u", "tower2/u"])]
)
def test_update_ops_are_kept_once_for_each_set_of_variables(graph, own_variables, expected):
    for tower in make_towers(3, own_variables=own_variables):
        with tower:
            fill(KEYS.UPDATE_OPS, "u")
    assert collected(KEYS.UPDATE_OPS) == expected


def test_a_prediction_tower_leaves_these_collections_as_they_were(graph):
    keys = [KEYS.LOSSES, KEYS.REGULARIZATION_LOSSES, KEYS.SUMMARIES, "MOVING_SUMMARY_OPS", KEYS.UPDATE_OPS]
    for key in keys:
        fill(key, f"before_{key}")
    with PredictTowerContext("p") as tower:
        for key in keys:
            fill(key, f"inside_{key}")
        fill("other", "inside_other")
    assert [collected(key) for key in keys] == [[f"before_{key}"] for key in keys]
    assert [names(tower.get_collection_in_tower(key)) for key in keys] == [[f"p/inside_{key}"] for key in keys]
    assert collected("other") == ["p/inside_other"]


def test_trainable_variables_of_towers_with_their_own_are_isolated(graph):
    tf.get_variable("before", [])
    towers = make_towers(3, own_variables=True)
    expected = [["w"], ["tower1/w"], ["tower2/w"]]
    for tower, own in zip(towers, expected, strict=True):
        with tower:
            assert tf.trainable_variables() == []
            tf.get_variable("w", [])
            assert names(tf.trainable_variables()) == own
    assert names(tf.trainable_variables()) == ["before", "w"]
    assert [names(tower.get_collection_in_tower(KEYS.TRAINABLE_VARIABLES)) for tower in towers] == expected


def test_variables_that_towers_share_belong_to_all_of_them(graph):
    tf.get_variable("before", [])
    towers = make_towers(2, own_variables=False)
    for tower in towers:
        with tower:
            tf.get_variable("w", [])
            assert names(tower.get_collection_in_tower(KEYS.TRAINABLE_VARIABLES)) == ["before", "w"]
    assert names(towers[1].get_collection_in_tower(KEYS.GLOBAL_VARIABLES)) == ["before", "w"]


def test_get_collection_in_tower_works_inside_and_afterwards_and_gives_copies(graph):
    fill("things", "before")
    with TowerContext("t", True) as context:
        fill("things", "inside")
        assert names(context.get_collection_in_tower("things")) == ["t/inside"]
    fill("things", "after")
    context.get_collection_in_tower("things").clear()
    assert names(context.get_collection_in_tower("things")) == ["t/inside"]
    assert context.get_collection_in_tower("missing") == []


def test_get_collection_in_tower_before_entering_is_an_error(graph):
    with pytest.raises(TowerError, match="was not entered yet"):
        TowerContext("t", True).get_collection_in_tower("things")


# Meeting others; towers that do meet are in test_together.py.


@pytest.mark.parametrize("context", [TowerContext("t", True), PredictTowerContext("p", index=1, total=3)])
def test_a_tower_that_has_no_partners_meets_itself(graph, context):
    def fn(xs, ys):
        assert get_current_tower_context() is None
        tf.add_to_collection(KEYS.SUMMARIES, tf.identity(xs[0], name="outside"))
        return [(xs, ys)]

    with context, tf.device("/device:CPU:3"):
        x = tf.constant(1, name="x")
        assert context.merge_call(fn, x, 2) == ([x], [2])
        assert current_tower_context() is context
    assert graph.get_operation_by_name("outside").device == ""


def test_merge_call_belongs_into_its_tower(graph):
    context = TowerContext("t", True)
    wrong = pytest.raises(TowerError, match="can be called only while it is current and being built")
    with wrong:
        context.merge_call(list)
    with context:
        with wrong, context.left():
            context.merge_call(list)
        with wrong, tf.Graph().as_default():
            context.merge_call(list)
        with wrong:
            tf.cond(tf.constant(True), lambda: context.merge_call(lambda: [1]), lambda: 2)
    with wrong, context.revisited():
        context.merge_call(list)


def test_merge_call_in_a_loop_of_tensorflow_1_is_an_error(graph):
    tf.disable_control_flow_v2()
    try:
        with TowerContext("t", True) as context, pytest.raises(TowerError, match="not in .* a TensorFlow loop"):
            tf.while_loop(lambda i: i < 3, lambda i: context.merge_call(lambda xs: xs, i), [0])
    finally:
        tf.enable_control_flow_v2()


# Variables.


def test_copies_are_local_and_paired_by_order(session8):
    towers = make_towers(3, own_variables=True)
    optimizers = []
    for tower in towers:
        with tower:
            weights = [tf.get_variable("w", [2]), tf.Variable(tf.ones([3]), name="b")]
        with tower.recorder.scope():
            optimizers.append(tf.train.AdamOptimizer(0.1).apply_gradients([(tf.ones_like(w), w) for w in weights]))
    main_names = names(towers[0].recorder.variables)
    assert main_names[:2] == ["w", "b"]
    assert names(tf.global_variables()) == main_names
    assert len(main_names) == 8
    for tower in towers[1:]:
        pairs = pair_variables(towers[0].recorder, tower.recorder)
        assert names([main for main, _ in pairs]) == main_names
        assert {copy.device for _, copy in pairs[:2]} == {tower.device}
        assert all(any(copy is local for local in tf.local_variables()) for _, copy in pairs)
    session8.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    session8.run(optimizers)
    for main, copy in pair_variables(towers[1].recorder, towers[2].recorder)[1::2]:
        assert session8.run(main).shape == session8.run(copy).shape


def test_shared_towers_use_the_main_tower_s_variables(session8):
    towers = make_towers(3, own_variables=False)
    made = []
    for tower in towers:
        with tower, tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
            made.append(tf.get_variable("w", initializer=2.0))
    assert made[0] is made[1] is made[2]
    assert names(tf.global_variables()) == ["layer/w"]
    assert tf.local_variables() == []


def in_second_tower(create, **options):
    """Enter a main tower that creates nothing, then one without variables of its own that creates something."""
    with TrainTowerContext("tower0", total=2):
        pass
    with TowerContext("other", index=1, total=2, reuse=True, **options):
        return create()


@pytest.mark.parametrize("is_training", [True, False])
def test_get_variable_that_the_main_tower_lacks_is_an_error(graph, is_training):
    wanted = r"tower 'other' \(2 of 2\) asks for the variable 'layer/w', which the main training tower did not create"
    with pytest.raises(TowerMismatchError, match=wanted), tf.variable_scope("layer"):
        in_second_tower(lambda: tf.get_variable("w", []), is_training=is_training)
    assert tf.global_variables() == []


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("resource", [None, False])
def test_tf_variable_that_the_main_tower_lacks_is_an_error(graph, is_training, resource):
    wanted = "creates the variable 'w', which the main training tower did not; .* Those of tf.Variable and Keras layers"
    with pytest.raises(TowerMismatchError, match=wanted):
        in_second_tower(lambda: tf.Variable(1.0, name="w", use_resource=resource), is_training=is_training)
    assert graph.get_operations() == []


def test_auto_reuse_inside_does_not_create_either(graph):
    def create():
        with tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
            return tf.get_variable("w", [])

    with pytest.raises(TowerMismatchError, match="creates the variable 'layer/w'"):
        in_second_tower(create, is_training=False)


def test_a_local_variable_in_a_tower_without_its_own_is_allowed(graph):
    variable = in_second_tower(lambda: tf.Variable(0.0, collections=[KEYS.LOCAL_VARIABLES]), is_training=False)
    assert tf.local_variables() == [variable]


@pytest.mark.parametrize(("shape", "dtype"), [([3], tf.float32), ([2], tf.float64)])
def test_another_shape_or_dtype_of_a_shared_variable_is_tensorflow_s_own_error(graph, shape, dtype):
    towers = make_towers(2, own_variables=False)
    with towers[0]:
        tf.get_variable("w", [2])
    with pytest.raises(ValueError, match="Trying to share variable w") as caught, towers[1]:
        tf.get_variable("w", shape, dtype)
    assert not isinstance(caught.value, TowerError)


def test_reuse_finds_local_variables(graph):
    towers = make_towers(2, own_variables=False)
    made = []
    for tower in towers:
        with tower:
            made.append(tf.get_variable("count", [], collections=[KEYS.LOCAL_VARIABLES]))
    assert made[0] is made[1]


def test_a_prediction_tower_takes_the_variables_of_one_training_tower(graph):
    for tower in make_towers(2, own_variables=True):
        with tower:
            tf.get_variable("w", [])
    with PredictTowerContext("p", "tower1", reuse=True):
        assert tf.get_variable("w", []).op.name == "tower1/w"
    with PredictTowerContext("q", reuse=True):
        assert tf.get_variable("w", []).op.name == "w"


# Outside, from inside.


def test_outside_leaves_every_scope_of_the_tower(graph):
    made = []
    for tower in make_towers(2, own_variables=True):
        with tower:
            own = tf.get_variable("w", [])
            with tf.variable_scope("layer"), tf.control_dependencies([own.initializer]), tower.outside():
                constant = tf.constant(0, name="c")
                made.append(tf.get_variable("shared", []))
                assert tf.get_variable_scope().name == ""
                assert current_tower_context() is tower
            tf.get_variable("v", [])
            assert tf.constant(0, name="c").device == tower.device
        assert constant.op.name.startswith("c")
        assert constant.device == ""
        assert constant.op.control_inputs == []
        assert len(tower.recorder.variables) == 2
    assert made[0] is made[1]
    assert names(tf.global_variables()) == ["w", "shared", "v"]
    assert names(tf.local_variables()) == ["tower1/w", "tower1/v"]
    assert made[0].device == ""


def test_outside_a_tower_without_its_own_variables_new_ones_may_be_made(graph):
    towers = make_towers(2, own_variables=False)
    with towers[0]:
        pass
    with towers[1], towers[1].outside():
        shared = tf.get_variable("shared", [])
    assert tf.global_variables() == [shared]


def test_outside_ends_with_an_error(graph):
    with TowerContext("t", True, "vs") as tower:
        with pytest.raises(ZeroDivisionError), tower.outside():
            raise ZeroDivisionError
        assert tf.get_variable("v", []).op.name == "vs/v"
        assert tf.constant(0, name="c").op.name == "t/c"
    assert names(tower.recorder.variables) == ["vs/v"]


# Resource variables, whatever the script switched off.

CHECK_RESOURCE_VARIABLES = """
import tensorflow.compat.v1 as tf
from tpack.tower.context import TrainTowerContext
tf.{switch}()
with tf.Graph().as_default() as graph:
    outside = tf.get_variable("outside", [])
    towers = [TrainTowerContext(f"t{{k}}", "t1" * k, index=k, total=2, has_own_variables=True) for k in range(2)]
    for tower in towers:
        with tower:
            made = [tf.get_variable("w", [2]), tf.Variable(1.0), tf.get_variable("r", [], use_resource=False)]
            with tower.outside():
                made.append(tf.get_variable("shared", []))
        with tower.recorder.scope():
            tf.train.MomentumOptimizer(0.1, 0.9).apply_gradients([(tf.ones([2]), made[0])])
        made += tower.recorder.variables
        assert {{v.op.type for v in made}} == {{"VarHandleOp"}}, [v.op.type for v in made]
    assert outside.op.type == "VariableV2"
    assert len(tf.local_variables()) == 4, tf.local_variables()
print("checked")
"""


@pytest.mark.parametrize("switch", ["disable_resource_variables", "disable_v2_behavior"])
def test_variables_are_resources_where_the_script_switched_them_off(switch, tmp_path):
    (tmp_path / "script.py").write_text(CHECK_RESOURCE_VARIABLES.format(switch=switch))
    done = preloaded.run(tmp_path / "script.py")
    assert done.stdout.endswith("checked\n"), done.stderr


def test_two_towers_compute_what_one_would(session8, rng):
    data = rng.normal(size=(2, 4, 3)).astype("float32")
    outputs = []
    towers = make_towers(2, own_variables=True)
    for tower, batch in zip(towers, data, strict=True):
        with tower:
            weight = tf.get_variable("w", [3, 2], initializer=tf.random_normal_initializer())
            outputs.append(tf.matmul(tf.constant(batch), weight))
    session8.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    ((main, copy),) = pair_variables(towers[0].recorder, towers[1].recorder)
    session8.run(copy.assign(main))
    value = session8.run(main)
    np.testing.assert_allclose(np.concatenate(session8.run(outputs)), data.reshape(8, 3) @ value, rtol=1e-5)


# A tower that was left is current again while its variables are updated.


def test_a_tower_that_was_left_can_be_revisited(graph):
    tower = TrainTowerContext("tower1", "tower1", index=1, total=2)
    with tower:
        pass
    with tower.revisited():
        assert current_tower_context() is tower
        assert tf.get_variable("outside", []).op.name == "outside"
    assert get_current_tower_context() is None


def test_a_tower_is_revisited_only_after_it_was_left(graph):
    tower = TrainTowerContext("tower0")
    with pytest.raises(TowerError, match="it must have been left"), tower.revisited():
        pass
    with tower, pytest.raises(TowerError, match="no tower may be current"), tower.revisited():
        pass


def test_variables_of_the_main_tower_are_called_as_if_it_were_alone(graph):
    tower = TrainTowerContext("tower0", total=2)
    with tower, tf.name_scope("tower0") as again, tf.variable_scope("layer"):
        variables = [tf.Variable(1.0, name="v"), tf.Variable(2.0, name="v"), tf.get_variable("w", [])]
        assert tf.constant(0, name="c").op.name == f"{again}layer/c"
    assert names(variables) == [
        f"{again.removeprefix('tower0/')}layer/v",
        f"{again.removeprefix('tower0/')}layer/v_1",
        "layer/w",
    ]


@pytest.mark.parametrize(
    ("is_training", "index", "has_own_variables", "updates"),
    [(True, 0, False, True), (True, 1, True, True), (True, 1, False, False), (False, 0, False, False)],
)
def test_variables_are_updated_once_for_each_set_of_them(is_training, index, has_own_variables, updates):
    tower = TowerContext("t", is_training, index=index, total=2, has_own_variables=has_own_variables)
    assert tower.updates_variables == updates


def test_a_strategy_s_block_is_no_tower_and_towers_can_be_entered_in_it(graph):
    tower = TowerContext("", True)
    with entered(Frame(strategy="a strategy")):
        assert get_current_tower_context() is None
        with tower:
            assert get_current_tower_context() is tower
        with tower.revisited():
            assert get_current_tower_context() is tower
        assert current_frame() == Frame(strategy="a strategy")


@pytest.mark.parametrize("outer", ["", "outer"])
def test_scopes_without_a_name_of_their_own_are_numbered_alike_in_all_towers(graph, outer):
    def layer():
        with tf.variable_scope(None, default_name="dense"):
            return tf.get_variable("w", [])

    with tf.variable_scope(outer or tf.get_variable_scope()):
        layer()
        towers = make_towers(3, own_variables=True)
        for tower in towers:
            with tower:
                layer()
                layer()
    for tower in towers[1:]:
        pairs = [(a.op.name, b.op.name) for a, b in pair_variables(towers[0].recorder, tower.recorder)]
        assert [main.removeprefix(f"{outer}/") for main, _ in pairs] == ["dense_1/w", "dense_2/w"]
        assert [copy.replace(f"{tower.name}/", "") for _, copy in pairs] == [main for main, _ in pairs]
