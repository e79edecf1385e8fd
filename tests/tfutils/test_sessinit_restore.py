"""Restoring: values arrive under their names, and whatever does not fit is told before anything changes."""

import os
import re
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import make_variables, save_checkpoint
from tests.helpers.log_lines import captured_log
from tpack.errors import CheckpointError, ConfigError
from tpack.tfutils.sessinit import DictRestore, SaverRestore, SaverRestoreRelaxed, SmartInit
from tpack.utils import logger

W = np.arange(6, dtype="float32").reshape(2, 3)
B = np.array([7, 8, 9], dtype="int64")


@pytest.fixture
def prefix(tmp_path: Any) -> str:
    return save_checkpoint(tmp_path, {"W": W, "b": B})


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(logger, "warning", lambda message, *args: said.append(message % args if args else message))
    return said


def run_init(init: Any, session: Any) -> dict[str, Any]:
    session.run(tf.global_variables_initializer())
    init.init(session)
    return {v.op.name: session.run(v) for v in tf.global_variables()}


def test_saver_restore_gives_saved_values_on_a_finalized_graph(prefix: str, session8: Any) -> None:
    make_variables({"W": W * 0, "b": B * 0})
    session8.run(tf.global_variables_initializer())
    session8.graph.finalize()
    SaverRestore(prefix).init(session8)
    np.testing.assert_array_equal(session8.run("W/Read/ReadVariableOp:0"), W)


def test_saver_restore_lists_what_only_one_side_has(prefix: str, session8: Any, warnings: list[str]) -> None:
    make_variables({"W": W * 0, "extra": B * 0})
    values = run_init(SaverRestore(prefix), session8)
    np.testing.assert_array_equal(values["W"], W)
    np.testing.assert_array_equal(values["extra"], B * 0)
    assert warnings == ["Only in the graph, so not restored: extra", f"Only in {prefix}, so not used: b"]


def test_saver_restore_puts_a_prefix_before_the_saved_names(prefix: str, session8: Any) -> None:
    make_variables({"W": W * 0, "teacher/W": W * 0, "teacher/b": B * 0})
    values = run_init(SaverRestore(prefix, prefix="teacher"), session8)
    np.testing.assert_array_equal(values["teacher/W"], W)
    np.testing.assert_array_equal(values["teacher/b"], B)
    np.testing.assert_array_equal(values["W"], W * 0)


@pytest.mark.parametrize("name", ["b", "b:0"])
def test_saver_restore_ignores_names(prefix: str, session8: Any, name: str) -> None:
    make_variables({"W": W * 0, "b": B * 0})
    values = run_init(SaverRestore(prefix, ignore=[name]), session8)
    np.testing.assert_array_equal(values["W"], W)
    np.testing.assert_array_equal(values["b"], B * 0)


def test_saver_restore_tells_all_mismatches_in_one_table_and_changes_nothing(prefix: str, session8: Any) -> None:
    make_variables({"W": np.zeros((3, 3), "float32"), "b": np.zeros(3, "float32")})
    session8.run(tf.global_variables_initializer())
    with pytest.raises(CheckpointError, match=r"2 value\(s\).*do not fit") as caught:
        SaverRestore(prefix).init(session8)
    rows = [" ".join(line.split()) for line in str(caught.value).splitlines()]
    assert "W float32 (3, 3) float32 (2, 3)" in rows
    assert "b float32 (3,) int64 (3,)" in rows
    assert not any(session8.run(v).any() for v in tf.global_variables())


def test_saver_restore_rejects_damaged_data_before_anything_changes(prefix: str, session8: Any) -> None:
    make_variables({"W": W * 0, "b": B * 0})
    session8.run(tf.global_variables_initializer())
    # The values lie in the order of their names, so W is whole and only b is cut off.
    data = prefix + ".data-00000-of-00001"
    os.truncate(data, os.path.getsize(data) - 4)
    with pytest.raises(CheckpointError, match=f"{prefix} is damaged: its data of the variable 'b'"):
        SaverRestore(prefix).init(session8)
    assert not any(session8.run(v).any() for v in tf.global_variables())


@pytest.mark.parametrize("ignore_mismatch", [False, True])
@pytest.mark.parametrize("as_dict", [False, True])
def test_restore_without_a_common_name_logs_an_error_or_raises_it(
    prefix: str, session8: Any, monkeypatch: pytest.MonkeyPatch, as_dict: bool, ignore_mismatch: bool
) -> None:
    errors: list[str] = []
    monkeypatch.setattr(logger, "error", errors.append)
    source: Any = {"W": W, "b": B} if as_dict else prefix
    make_variables({"other/W": W})
    np.testing.assert_array_equal(run_init(SmartInit(source, ignore_mismatch=ignore_mismatch), session8)["other/W"], W)
    wanted = "no name of 2 in .*: it has W, b; the graph has other/W"
    assert len(errors) == 1
    assert re.match(f"NOTHING IS RESTORED: {wanted}", errors[0])
    with pytest.raises(CheckpointError, match=wanted):
        SmartInit([None, source], ignore_mismatch=ignore_mismatch, must_match=True).init(session8)


def test_relaxed_restore_reshapes_casts_and_skips(prefix: str, session8: Any, warnings: list[str]) -> None:
    make_variables({"W": np.zeros((3, 2), "float64"), "b": np.ones(4, "int64")})
    values = run_init(SaverRestoreRelaxed(prefix), session8)
    np.testing.assert_array_equal(values["W"], W.reshape(3, 2).astype("float64"))
    np.testing.assert_array_equal(values["b"], np.ones(4))
    assert warnings[0] == "Reshaping the value of W from (2, 3) to (3, 2)"
    assert "Left alone" in warnings[1]
    assert "int64 (4,)" in warnings[1]


def test_relaxed_restore_without_a_common_name_only_warns(prefix: str, session8: Any, warnings: list[str]) -> None:
    make_variables({"other": W})
    np.testing.assert_array_equal(run_init(SaverRestoreRelaxed(prefix), session8)["other"], W)
    assert len(warnings) == 2


def test_dict_restore_takes_names_with_and_without_output_index(session8: Any) -> None:
    make_variables({"conv0/W": W * 0, "conv0/b": B * 0})
    values = run_init(DictRestore({"conv0/W:0": W.astype("float64"), "conv0/b": B.astype("int32")}), session8)
    np.testing.assert_array_equal(values["conv0/W"], W)
    np.testing.assert_array_equal(values["conv0/b"], B)


@pytest.mark.parametrize("value", [np.array([2**40, 0, 0]), np.array([1.0, 2, 3]), np.array(["x", "y", "z"])])
def test_dict_restore_rejects_values_that_the_dtype_cannot_hold(session8: Any, value: Any) -> None:
    make_variables({"b": np.zeros(3, "int32")})
    with pytest.raises(CheckpointError, match="int32"):
        DictRestore({"b": value}).init(session8)


def test_dict_restore_of_nothing_changes_nothing(session8: Any) -> None:
    make_variables({"W": W})
    np.testing.assert_array_equal(run_init(DictRestore({}), session8)["W"], W)


def test_dict_restore_into_a_graph_without_variables_says_none(session8: Any) -> None:
    with pytest.raises(CheckpointError, match="the graph has none"):
        DictRestore({"W": W}, must_match=True).init(session8)


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ([W], "got variable_dict=a list of 1: expected a dict"),
        ({1: W}, "got variable_dict=a dict of 1: expected a dict from variable names to values"),
        ("W", "got variable_dict='W': expected a dict"),
    ],
)
def test_dict_restore_rejects_other_things(obj: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DictRestore(obj)


def test_dict_restore_rejects_one_name_twice() -> None:
    with pytest.raises(ConfigError, match="no name both with and without"):
        DictRestore({"W": W, "W:0": W})


def test_what_only_another_training_needs_is_counted(tmp_path: Any, session8: Any, warnings: list[str]) -> None:
    saved = {
        **{"net/W": W, "net/W/Adam": W, "net/W/Adam_1": W, "net/W/ExponentialMovingAverage": W, "other": B},
        **{"global_step": B, "beta1_power": B, "tower/beta2_power_1": B, "learning_rate": B, "loss_scale/scale": B},
    }
    prefix = save_checkpoint(tmp_path, saved)
    make_variables({"net/W": W * 0})
    with captured_log() as lines:
        np.testing.assert_array_equal(run_init(SaverRestore(prefix), session8)["net/W"], W)
    assert warnings == [f"Only in {prefix}, so not used: other"]
    assert f"8 value(s) in {prefix} that another training needed are not used" in lines


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SaverRestore(None), "^SaverRestore got model_path="),
        (lambda: SaverRestore(""), "SaverRestore got model_path='': expected a path that is not empty"),
        (lambda: SaverRestore(5), "^SaverRestore got model_path="),
        (lambda: DictRestore([1, 2]), r"DictRestore got variable_dict=\[1, 2\]: expected a dict"),
        (lambda: DictRestore({}, ignore_mismatch="no"), "DictRestore got ignore_mismatch='no': expected True or False"),
    ],
)
def test_arguments_that_cannot_be_are_named(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
