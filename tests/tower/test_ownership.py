"""Recording which variables a tower creates, and pairing them with the main tower's."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import TowerMismatchError
from tpack.tower.collections import KEEP_ALL, KEEP_UPDATES, KEEP_VARIABLES, LOSS_KEYS, SUMMARY_KEYS
from tpack.tower.context import TrainTowerContext
from tpack.tower.ownership import Copies, MirrorOwnership, Own, Shared, VariableRecorder, ownership_of, pair_variables


def names(variables):
    return [v.op.name for v in variables]


def local_and_global():
    return names(tf.local_variables()), names(tf.global_variables())


@pytest.mark.parametrize("use_resource", [None, False, True])
def test_every_variable_in_the_scope_is_recorded_and_a_resource(graph, use_resource):
    recorder = VariableRecorder("a tower")
    tf.get_variable("before", [])
    with recorder.scope():
        made = [tf.get_variable("a", [2], use_resource=use_resource), tf.Variable(1.0, use_resource=use_resource)]
    with recorder.scope():
        made.append(tf.get_variable("c", [], collections=[tf.GraphKeys.LOCAL_VARIABLES], use_resource=use_resource))
    tf.get_variable("after", [])
    assert recorder.variables == made
    assert {v.op.type for v in made} == {"VarHandleOp"}
    assert local_and_global() == (["c"], ["before", "a", "Variable", "after"])


def test_a_variable_that_is_reused_is_not_recorded_again(graph):
    recorder = VariableRecorder("a tower")
    with recorder.scope(), tf.variable_scope("", reuse=tf.AUTO_REUSE):
        assert tf.get_variable("a", []) is tf.get_variable("a", [])
    assert names(recorder.variables) == ["a"]


def test_copies_go_to_local_variables_and_keep_their_other_collections(graph):
    recorder = VariableRecorder("a tower", Copies())
    with recorder.scope():
        tf.get_variable("a", [])
        tf.Variable(1.0, name="b", trainable=False, collections=[tf.GraphKeys.GLOBAL_VARIABLES, "mine"])
        tf.get_variable("c", [], trainable=False, collections=["mine"])
    assert local_and_global() == (["a", "b"], [])
    assert names(tf.trainable_variables()) == ["a"]
    assert names(tf.get_collection("mine")) == ["b", "c"]
    assert names(recorder.variables) == ["a", "b", "c"]


def test_nothing_is_recorded_while_paused_also_when_pauses_are_nested(graph):
    recorder = VariableRecorder("a tower", Copies())
    with recorder.scope():
        with recorder.paused():
            with recorder.paused():
                tf.get_variable("a", [])
            shared = tf.get_variable("b", [], use_resource=False)
        tf.get_variable("c", [])
    assert names(recorder.variables) == ["c"]
    assert local_and_global() == (["c"], ["a", "b"])
    assert shared.op.type == "VarHandleOp"


def test_a_pause_ends_with_an_error(graph):
    recorder = VariableRecorder("a tower")
    with recorder.scope():
        with pytest.raises(ZeroDivisionError), recorder.paused():
            raise ZeroDivisionError
        tf.get_variable("a", [])
    assert names(recorder.variables) == ["a"]


def test_a_tower_that_shares_variables_makes_local_ones_only(graph):
    recorder = VariableRecorder("tower 3", Shared())
    with recorder.scope():
        tf.Variable(1.0, name="local", collections=[tf.GraphKeys.LOCAL_VARIABLES])
        with recorder.paused():
            tf.Variable(1.0, name="shared")
        with pytest.raises(TowerMismatchError, match=r"tower 3 creates the variable 'global', which .* did not"):
            tf.Variable(1.0, name="global")
    assert names(recorder.variables) == ["local"]
    assert local_and_global() == (["local"], ["shared"])


def test_optimizer_slots_are_recorded_and_paired(graph):
    recorders = [VariableRecorder("main"), VariableRecorder("copy", Copies())]
    for index, recorder in enumerate(recorders):
        with tf.variable_scope(f"t{index}" if index else ""), recorder.scope():
            w = tf.get_variable("w", [2])
        optimizer = tf.train.AdamOptimizer(0.1)
        with recorder.scope():
            optimizer.apply_gradients([(tf.ones([2]), w)])
    pairs = [(main.op.name, copy.op.name) for main, copy in pair_variables(*recorders)]
    assert pairs[0] == ("w", "t1/w")
    assert len(pairs) == 5
    assert {main for main, _ in pairs} == set(names(tf.global_variables()))
    assert {copy for _, copy in pairs} == set(names(tf.local_variables()))


def test_pairs_have_one_name_inside_their_towers_whatever_the_order(session8):
    recorders = [VariableRecorder("main"), VariableRecorder("copy", Copies())]
    for index, recorder in enumerate(recorders):
        with tf.variable_scope("t1" if index else ""), tf.name_scope(f"t{index}/"), recorder.scope():
            for name in reversed("ab") if index else "ab":
                tf.get_variable(name, [])
                with tf.name_scope(f"{name}_layer"):
                    tf.Variable(1.0, name="v")
    pairs = [(a.op.name, b.op.name) for a, b in pair_variables(*recorders)]
    assert pairs == [(a, b) for x in "ab" for a, b in [(x, f"t1/{x}"), (f"t0/{x}_layer/v", f"t1/{x}_layer/v")]]


def test_variables_of_one_name_are_paired_by_their_number_and_slots_by_whose_they_are(session8):
    recorders = [VariableRecorder("main"), VariableRecorder("copy", Copies())]
    for index, recorder in enumerate(recorders):
        with tf.variable_scope("t1" if index else "", auxiliary_name_scope=False), recorder.scope():
            # TensorFlow makes these names unique with suffixes that depend on what was built before.
            made = [tf.Variable(1.0, name="v"), tf.get_variable("w", []), tf.Variable(2.0, name="v")]
        with recorder.scope():
            slots = made[::-1] if index else made
            tf.train.MomentumOptimizer(0.1, 0.9).apply_gradients([(tf.ones([]), slot) for slot in slots])
    pairs = {a.op.name: b.op.name for a, b in pair_variables(*recorders)}
    weights = {"v": "v_2", "w": "t1/w", "v_1": "v_3"}
    assert pairs == weights | {f"{a}/Momentum": f"{b}/Momentum" for a, b in weights.items()}


def test_averages_are_paired_although_their_names_hold_the_names_of_towers(graph):
    towers = [TrainTowerContext(f"tower{k}", "tower1" * k, index=k, total=2, has_own_variables=True) for k in range(2)]
    for k, tower in enumerate(towers):
        with tower:
            averaged = [tf.get_variable("w", []), tf.constant(1.0, name="cost"), tf.constant(1.0, name="other")]
            tf.train.ExponentialMovingAverage(0.9, name="avg").apply(averaged[::-1] if k else averaged)
    pairs = {a.op.name: b.op.name for a, b in pair_variables(*(tower.recorder for tower in towers))}
    assert {a: b.replace("tower1/", "") for a, b in pairs.items()} == {a: a.replace("tower0/", "") for a in pairs}
    assert len(pairs) == 4


def test_a_model_may_have_scopes_that_are_called_as_towers_are(graph):
    towers = [TrainTowerContext(f"tower{k}", "tower1" * k, index=k, total=2, has_own_variables=True) for k in range(2)]
    for tower in towers:
        with tower:
            for scope in reversed(("tower0", "tower1")) if tower.index else ("tower0", "tower1"):
                with tf.variable_scope(scope):
                    tf.get_variable("w", [])
                    tf.Variable(1.0, name="v")
    pairs = {a.op.name: b.op.name for a, b in pair_variables(*(tower.recorder for tower in towers))}
    assert pairs == {f"tower{k}/{name}": f"tower1/tower{k}/{name}" for k in range(2) for name in "wv"}


def record(owner, *shapes, dtype=tf.float32, names="vwxyz"):
    recorder = VariableRecorder(owner)
    with tf.variable_scope(owner), recorder.scope():
        for name, shape in zip(names, shapes, strict=False):
            tf.get_variable(name, shape, dtype)
    return recorder


@pytest.mark.parametrize("swap", [False, True])
def test_pairing_names_the_variables_that_one_tower_alone_has(graph, swap):
    towers = record("first", [1], [2]), record("second", [1], [2], [3])
    alone = [r"only first has \[\]", r"only second has \[second/x\]$"]
    wanted = ", ".join(alone[::-1] if swap else alone).replace("$, ", ", ")
    with pytest.raises(TowerMismatchError, match=f"are paired by the names of their variables, .*: {wanted}"):
        pair_variables(*(reversed(towers) if swap else towers))


def test_as_many_variables_of_other_names_are_no_copies(graph):
    towers = record("first", [2], [2], names="ab"), record("second", [2], [2], names="bc")
    with pytest.raises(TowerMismatchError, match=r"only first has \[first/a\], only second has \[second/c\]$"):
        pair_variables(*towers)


def test_of_many_names_some_are_said(graph):
    towers = record("first"), record("second", *[[1]] * 12, names="abcdefghijkl")
    with pytest.raises(TowerMismatchError, match=r"has \[second/a, second/b, .*second/j\] and 2 more$"):
        pair_variables(*towers)


@pytest.mark.parametrize(("shape", "dtype"), [([3], tf.float32), ([2], tf.float64)])
def test_pairing_refuses_another_shape_or_dtype(graph, shape, dtype):
    wanted = rf"first created first/v with shape \(2,\) and dtype float32 where second .*dtype {dtype.name}"
    with pytest.raises(TowerMismatchError, match=wanted):
        pair_variables(record("first", [2]), record("second", shape, dtype=dtype))


def test_pairing_takes_unknown_shapes(graph):
    recorders = [VariableRecorder("a"), VariableRecorder("b")]
    value = tf.placeholder(tf.float32, [None])
    for recorder in recorders:
        with recorder.scope():
            tf.Variable(value, validate_shape=False, shape=tf.TensorShape(None))
    assert len(pair_variables(*recorders)) == 1


def test_a_tower_can_take_what_another_one_made_and_nothing_else(graph):
    def make_twice():
        with tf.variable_scope("s", reuse=tf.AUTO_REUSE):
            shared = tf.get_variable("v", [])
        return [shared, tf.Variable(1.0, name="w"), tf.Variable(1.0, name="w", collections=[], trainable=False)]

    earlier, main = VariableRecorder("an earlier tower"), VariableRecorder("the main tower")
    with earlier.scope():
        tf.Variable(1.0, name="w")
    with main.scope():
        made = make_twice()
    other = VariableRecorder("the other tower", MirrorOwnership(main))
    with other.scope():
        assert make_twice() == made
        with other.paused():
            paused = tf.Variable(1.0, name="w")
        with pytest.raises(TowerMismatchError, match="the other tower creates the variable 'w', which the main"):
            tf.Variable(1.0, name="w")
        with pytest.raises(TowerMismatchError, match="creates the variable 'x'"):
            tf.get_variable("x", [])
    assert other.variables == made[1:]
    assert paused not in made


TRAINABLE = tf.GraphKeys.TRAINABLE_VARIABLES


@pytest.mark.parametrize(
    ("is_training", "is_main", "has_own", "reuse", "kind", "policy"),
    [
        (True, True, False, False, Own, KEEP_ALL),
        (True, True, True, False, Own, KEEP_ALL.with_own_variables()),
        (True, True, False, True, Shared, KEEP_ALL),
        (True, False, True, False, Copies, KEEP_UPDATES.with_own_variables()),
        (True, False, True, True, Shared, KEEP_UPDATES.with_own_variables()),
        (True, False, False, True, Shared, KEEP_VARIABLES),
        (True, False, False, False, Own, KEEP_VARIABLES),
        (False, True, False, False, Own, KEEP_VARIABLES),
        (False, True, False, True, Shared, KEEP_VARIABLES),
        (False, False, True, True, Shared, KEEP_VARIABLES),
        (False, False, True, False, Own, KEEP_VARIABLES),
    ],
)
def test_each_kind_of_tower_has_one_ownership(is_training, is_main, has_own, reuse, kind, policy):
    ownership = ownership_of(is_training=is_training, is_main=is_main, has_own_variables=has_own, reuse=reuse)
    assert type(ownership) is kind
    assert ownership.policy == policy
    assert ownership.updates_variables == (is_training and (has_own or is_main))


def test_policies_say_what_is_kept_of_a_tower():
    own = KEEP_UPDATES.with_own_variables()
    assert set(own.isolated) == {*LOSS_KEYS, TRAINABLE}
    assert set(own.discarded) == {*LOSS_KEYS, TRAINABLE, *SUMMARY_KEYS}
    assert KEEP_ALL.with_own_variables() == ((*LOSS_KEYS, TRAINABLE), ())
