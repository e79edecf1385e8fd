"""SmartInit: each thing that a person has becomes the right SessionInit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import make_variables, save_checkpoint
from tpack.errors import CheckpointError, ConfigError
from tpack.tfutils.sessinit import (
    ChainInit,
    DictRestore,
    JustCurrentSession,
    SaverRestore,
    SaverRestoreRelaxed,
    SessionInit,
    SmartInit,
    load_npz,
)

W = np.arange(4, dtype="float32")


@pytest.mark.parametrize("obj", [None, ""])
def test_nothing_keeps_the_session_as_it_is(obj: Any) -> None:
    assert type(SmartInit(obj)) is JustCurrentSession


def test_session_init_stays_itself() -> None:
    init = SessionInit()
    assert SmartInit(init) is init


def test_checkpoint_by_prefix_directory_and_pathlib(tmp_path: Path) -> None:
    prefix = save_checkpoint(tmp_path, {"W": W})
    for obj in (prefix, Path(prefix), str(tmp_path), tmp_path):
        init = SmartInit(obj)
        assert type(init) is SaverRestore
        assert init.path == prefix
    assert type(SmartInit(prefix, ignore_mismatch=True)) is SaverRestoreRelaxed


def test_npz_with_tensor_names_loads(tmp_path: Path, session8: Any) -> None:
    path = tmp_path / "model.npz"
    np.savez(path, **{"conv0/W:0": W})
    variable = make_variables({"conv0/W": W * 0})["conv0/W"]
    init = SmartInit(str(path))
    assert isinstance(init, DictRestore)
    assert init.source == str(path)
    init.init(session8)
    np.testing.assert_array_equal(session8.run(variable), W)


def test_dict_of_other_shape_is_skipped_when_mismatches_are_ignored(session8: Any) -> None:
    variable = make_variables({"W": W})["W"]
    session8.run(tf.global_variables_initializer())
    with pytest.raises(CheckpointError, match="do not fit"):
        SmartInit({"W": W[:2]}).init(session8)
    SmartInit({"W": W[:2]}, ignore_mismatch=True).init(session8)
    np.testing.assert_array_equal(session8.run(variable), W)


def test_list_is_a_chain_whose_last_member_counts(tmp_path: Path, session8: Any) -> None:
    prefix = save_checkpoint(tmp_path, {"W": W, "b": W})
    variables = make_variables({"W": W * 0, "b": W * 0})
    init = SmartInit([prefix, {"b": W * 2}, None])
    assert isinstance(init, ChainInit)
    init.init(session8)
    np.testing.assert_array_equal(session8.run(variables["W"]), W)
    np.testing.assert_array_equal(session8.run(variables["b"]), W * 2)


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (3, "obj=3: expected a SessionInit or a dict or a path"),
        ({1, 2}, "obj=a set of 2: expected a SessionInit or a dict or a path"),
        (np.zeros(2), r"obj=an array of shape \(2,\) and dtype float64: expected the path of a checkpoint"),
    ],
)
def test_other_things_are_rejected(obj: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"SmartInit got {message}"):
        SmartInit(obj)


def test_missing_and_damaged_npz_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cannot read arrays from .*none\.npz"):
        SmartInit(str(tmp_path / "none.npz"))
    path = tmp_path / "model.npz"
    np.savez(path, W=np.arange(1000))
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(CheckpointError, match="model.npz"):
        load_npz(str(path))


def test_a_lone_array_is_no_npz(tmp_path: Path) -> None:
    with open(tmp_path / "model.npz", "wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(CheckpointError, match=r"model\.npz: ValueError: it holds one array without a name"):
        load_npz(str(tmp_path / "model.npz"))


def test_npz_with_python_objects_is_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    np.savez(path, W=np.array([{}], dtype=object))
    with pytest.raises(CheckpointError, match="allow_pickle=False"):
        load_npz(str(path))
