"""Values of variables in checkpoints and in .npz files: what is written is read."""

import os
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import make_variables, save_checkpoint
from tpack.errors import CheckpointError, ConfigError
from tpack.tfutils.sessinit import SmartInit
from tpack.tfutils.varmanip import (
    dump_session_params,
    get_checkpoint_path,
    get_savename_from_varname,
    is_training_name,
    load_checkpoint_vars,
    save_checkpoint_vars,
)

VALUES = {
    "conv0/W": np.arange(6, dtype="float32").reshape(2, 3),
    "file": np.array(3, "int64"),
    "half": np.array([1.5, -2], "float16"),
    "empty": np.zeros((0, 2)),
}


@pytest.mark.parametrize("name", ["values.npz", "model-5"])
def test_what_is_written_is_read(tmp_path: Any, name: str) -> None:
    path = str(tmp_path / name)
    save_checkpoint_vars({f"{key}:0": value for key, value in VALUES.items()}, path)
    loaded = load_checkpoint_vars(path)
    assert loaded.keys() == VALUES.keys()
    for key, value in VALUES.items():
        assert loaded[key].dtype == value.dtype
        np.testing.assert_array_equal(loaded[key], value)


def test_checkpoints_of_savers_are_read_and_ours_by_savers(session8: Any, tmp_path: Any) -> None:
    prefix = save_checkpoint(tmp_path, VALUES)
    assert load_checkpoint_vars(tmp_path).keys() == VALUES.keys()
    assert get_checkpoint_path(f"{prefix}.index") == prefix
    variables = make_variables({key: np.zeros_like(value) for key, value in VALUES.items()})
    save_checkpoint_vars(VALUES, tmp_path / "ours")
    tf.train.Saver(variables).restore(session8, str(tmp_path / "ours"))
    np.testing.assert_array_equal(session8.run(variables["conv0/W"]), VALUES["conv0/W"])


def test_a_checkpoint_is_written_without_taking_the_memory_of_gpus(monkeypatch: Any, tmp_path: Any) -> None:
    asked, session = [], tf.Session

    def noting(*args: Any, config: Any = None, **kwargs: Any) -> Any:
        asked.append(config.device_count["GPU"])
        return session(*args, config=config, **kwargs)

    monkeypatch.setattr(tf, "Session", noting)
    save_checkpoint_vars(VALUES, tmp_path / "model-1")
    assert asked == [0]


def test_numpy_reads_our_files(tmp_path: Any) -> None:
    save_checkpoint_vars({**VALUES, "brain": np.array([1.5], ml_dtypes.bfloat16)}, tmp_path / "values.npz")
    with np.load(tmp_path / "values.npz", allow_pickle=False) as file:
        assert set(file.files) == {*VALUES, "brain"}
        assert file["brain"].dtype == np.float32
    assert os.listdir(tmp_path) == ["values.npz"]


@pytest.mark.parametrize("name", ["values.npz", "model-1"])
@pytest.mark.parametrize("value", [np.array([{}]), None, [[1], [1, 2]], "tensor", "variable"])
def test_what_makes_no_array_is_not_written(graph: Any, tmp_path: Any, name: str, value: Any) -> None:
    made = {"tensor": lambda: tf.zeros([2]), "variable": lambda: tf.get_variable("v", [])}
    if isinstance(value, str):
        value = made[value]()
    with pytest.raises(ConfigError, match=r"got dic\['a'\]=.*: expected an array of numbers or text; use session.run"):
        save_checkpoint_vars({"a": value}, tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_objects_of_text_are_written_to_a_checkpoint_alone(tmp_path: Any) -> None:
    texts = np.array([b"a\0", b"b"], object)
    save_checkpoint_vars({"a": texts}, tmp_path / "model-1")
    assert load_checkpoint_vars(tmp_path / "model-1")["a"].tolist() == texts.tolist()
    with pytest.raises(ConfigError, match="of shape .2,. and dtype object: expected an array"):
        save_checkpoint_vars({"a": texts}, tmp_path / "values.npz")


def test_swapped_and_wrong_arguments_are_refused_and_nothing_is_written(tmp_path: Any) -> None:
    path, arrays = str(tmp_path / "weights.npz"), {"a": np.zeros(1)}
    swapped = r"got dic='.*weights.npz': expected a dict of arrays by name; use save_checkpoint_vars\(dic, path\)"
    with pytest.raises(ConfigError, match=swapped):
        save_checkpoint_vars(path, arrays)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="got dic=a list of 1: expected a dict of arrays"):
        save_checkpoint_vars([np.zeros(1)], path)  # type: ignore[arg-type]
    for call in (
        lambda: save_checkpoint_vars(arrays, 5),
        lambda: load_checkpoint_vars(5),
        lambda: dump_session_params(5),
    ):
        with pytest.raises(ConfigError, match="_vars got path=5: expected a path|_params got path=5: expected a path"):
            call()
    with pytest.raises(ConfigError, match="resolve_checkpoint got path=None: expected a path"):
        get_checkpoint_path(None)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("dic", [{"a": 1, "a:0": 2}, {3: 1}])
def test_names_must_be_names_and_differ(tmp_path: Any, dic: Any) -> None:
    with pytest.raises(ConfigError, match="got dic=.*: expected a dict by name"):
        save_checkpoint_vars(dic, tmp_path / "values.npz")


def test_missing_files_are_checkpoint_errors(tmp_path: Any) -> None:
    for name in ("a.npz", "model-1"):
        with pytest.raises(CheckpointError, match=name):
            load_checkpoint_vars(tmp_path / name)


def test_arrays_of_a_url_are_read_up_to_a_limit(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("TPACK_REMOTE_CACHE", str(tmp_path / "cache"))
    np.savez_compressed(tmp_path / "file.npz", w=np.zeros(1 << 20, np.uint8))
    assert load_checkpoint_vars(f"local://{tmp_path}/file.npz")["w"].shape == (1 << 20,)
    with pytest.raises(CheckpointError, match="has 1048704 bytes: expected at most 2000; use max_bytes=1048704"):
        load_checkpoint_vars(tmp_path / "file.npz", max_bytes=2000)


def test_checkpoints_are_written_wherever_tensorflow_writes(tmp_path: Any) -> None:
    for path in ("ram://written/model", f"file://{tmp_path}/model"):
        save_checkpoint_vars({"W": np.arange(3)}, path)
        np.testing.assert_array_equal(load_checkpoint_vars(path)["W"], np.arange(3))


def test_remote_files_that_cannot_be_written_are_errors_in_words(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        CheckpointError, match="cannot write checkpoint nowhere://b/model: File system scheme 'nowhere' not"
    ):
        save_checkpoint_vars({"W": np.arange(3)}, "nowhere://b/model")
    with pytest.raises(ConfigError, match="expected a path on this machine"):
        save_checkpoint_vars({"W": np.arange(3)}, "gs://b/model.npz")
    assert not list(tmp_path.iterdir())


def test_session_is_dumped_without_what_only_training_needs(session8: Any, tmp_path: Any) -> None:
    variables = make_variables({"W": np.ones(3, "float32")})
    collections = [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES]
    moving = tf.get_variable("bn/mean/EMA", initializer=[5.0], trainable=False, collections=collections)
    tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(variables["W"]))
    session8.run(tf.global_variables_initializer())
    dump_session_params(str(tmp_path / "model.npz"))
    assert load_checkpoint_vars(tmp_path / "model.npz").keys() == {"W", "bn/mean/EMA"}
    session8.run([variables["W"].assign([0, 0, 0]), moving.assign([0])])
    SmartInit(str(tmp_path / "model.npz")).init(session8)
    np.testing.assert_array_equal(np.hstack(session8.run([variables["W"], moving])), [1, 1, 1, 5])


def test_dumping_wants_a_session(graph: Any, tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="needs a default session"):
        dump_session_params(str(tmp_path / "model.npz"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("global_step:0", True),
        ("conv0/W/Adam_1:0", True),
        ("beta1_power", True),
        ("tower1/beta2_power", True),
        ("fc/W/Momentum", True),
        ("fc/W/AccumGrad", True),
        ("EMA/cost/ExponentialMovingAverage", True),
        ("conv0/W", False),
        ("bn/mean/EMA:0", False),
        ("Adam/W", False),
    ],
)
def test_training_names_are_recognised(name: str, expected: bool) -> None:
    assert is_training_name(name) is expected


def test_names_move_between_scopes() -> None:
    assert get_savename_from_varname("tower1/conv0/W", "tower1") == "conv0/W"
    assert get_savename_from_varname("tower1/conv0/W", "tower1/", "gen/") == "gen/conv0/W"
    assert get_savename_from_varname("tower10/W", "tower1") == "tower10/W"
    assert get_savename_from_varname("W") == "W"
