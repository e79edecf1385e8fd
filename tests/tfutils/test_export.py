"""Exported models give the numbers of the predictor, to plain TensorFlow in a process without tpack."""

import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.util import deprecation

from tests.helpers import preloaded
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.source import ROOT
from tpack.errors import CheckpointError, ConfigError, TowerError
from tpack.predict.config import PredictConfig
from tpack.predict.offline import OfflinePredictor
from tpack.tfutils.export import ModelExporter
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.tfutils.sessinit import SmartInit
from tpack.tower.context import current_tower_context
from tpack.tower.tower_func import TowerFunc

WEIGHTS = {
    "conv0/W": np.random.default_rng(1).normal(size=(3, 3, 2, 4)).astype("float32"),
    "bn/gamma": np.array([1, 2, 3, 4], "float32"),
    "bn/mean": np.array([0.1, 0.2, 0.3, 0.4], "float32"),
    "bn/variance": np.array([4, 3, 2, 1], "float32"),
}


def model(image: Any, label: Any) -> Any:
    """A convolution, batch normalisation and a conditional on the placeholder of a training flag."""
    weights = {name: tf.get_variable(name, value.shape, use_resource=True) for name, value in WEIGHTS.items()}
    features = tf.nn.conv2d(image, weights["conv0/W"], 1, "SAME")
    features, *_ = tf.nn.fused_batch_norm(
        features, weights["bn/gamma"], tf.zeros(4), weights["bn/mean"], weights["bn/variance"], is_training=False
    )
    checked = tf.identity(tf.check_numerics(features, "features"))
    tf.identity(tf.reduce_mean(tf.nn.relu(checked), axis=[1, 2]), name="scores")
    assert not current_tower_context().is_training
    tf.identity(tf.cast(label, tf.float32) * tf.reduce_sum(features), name="cost")


def config(**changes: Any) -> Any:
    """Return what a PredictConfig has."""
    signature = [tf.TensorSpec([None, 8, 8, 2], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]
    values = {
        "tower_func": TowerFunc(model, signature),
        "input_signature": signature,
        "input_names": ["image"],
        "output_names": ["scores"],
        "session_creator": NewSessionCreator(),
        "session_init": SmartInit(WEIGHTS),
    }
    return SimpleNamespace(**{**values, **changes})


def by_hand(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    patches = [(padded[:, i : i + 8, j : j + 8] @ WEIGHTS["conv0/W"][i, j]) for i in range(3) for j in range(3)]
    normalised = (sum(patches) - WEIGHTS["bn/mean"]) / np.sqrt(WEIGHTS["bn/variance"] + 1e-3)
    return np.maximum(normalised * WEIGHTS["bn/gamma"], 0).mean(axis=(1, 2))


def test_exports_give_the_same_numbers_without_tpack(tmp_path: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 8, 8, 2)).astype("float32")
    np.savez(tmp_path / "inputs.npz", x=x)
    exporter = ModelExporter(config(session_init=SmartInit(save_checkpoint(tmp_path, WEIGHTS))))
    exporter.export_serving(tmp_path / "saved")
    exporter.export_compact(tmp_path / "frozen.pb")
    preloaded.run(ROOT / "tests" / "helpers" / "load_exported.py", [tmp_path], cwd=tmp_path).check_returncode()
    answers = np.load(tmp_path / "outputs.npz")
    for kind in ("v1", "v2", "frozen"):
        np.testing.assert_allclose(answers[kind], by_hand(x), rtol=1e-4, atol=1e-5, err_msg=kind)
    assert answers["variables"] == 0
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_exported_file_and_predictor_agree(tmp_path: Any, rng: np.random.Generator) -> None:
    description = PredictConfig(
        tower_func=config().tower_func,
        input_names=["image", "label"],
        output_names=["scores", "cost:0"],
        session_init=SmartInit(WEIGHTS),
    )
    dp = rng.normal(size=(2, 8, 8, 2)).astype("float32"), np.array([3, 5], "int32")
    predictor = OfflinePredictor(description)
    expected = predictor(*dp)
    predictor.sess.close()
    ModelExporter(description).export_compact(tmp_path / "model.pb")
    ModelExporter(description).export_serving(tmp_path / "saved")
    feeds = dict(zip(("image:0", "label:0"), dp, strict=True))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(tf.GraphDef.FromString((tmp_path / "model.pb").read_bytes()), name="")
        for value, wanted in zip(session.run(["scores:0", "cost:0"], feeds), expected, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-5)
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], str(tmp_path / "saved")).signature_def["serving_default"]
        assert set(signature.inputs) == {"image", "label"}
        for name, wanted in zip(["scores", "cost:0"], expected, strict=True):
            np.testing.assert_allclose(session.run(signature.outputs[name].name, feeds), wanted, rtol=1e-5)


@pytest.mark.parametrize("optimize", [True, False])
def test_compact_file_has_what_the_outputs_need(tmp_path: Any, optimize: bool) -> None:
    path = tmp_path / "model.pb"
    ModelExporter(config()).export_compact(path, optimize=optimize)
    nodes = tf.GraphDef.FromString(path.read_bytes()).node
    types = {node.op for node in nodes}
    assert not types & {"VarHandleOp", "ReadVariableOp", "VariableV2"}
    assert ("CheckNumerics" in types) is not optimize
    assert {"image", "scores"} <= {node.name for node in nodes}
    assert "label" not in {node.name for node in nodes}
    assert {node.device for node in nodes} == {""}


def test_names_that_do_not_exist_list_near_ones(tmp_path: Any) -> None:
    for export in ("export_serving", "export_compact"):
        with pytest.raises(TowerError, match="no tensor 'score'.*near names: .*scores"):
            getattr(ModelExporter(config(output_names=["score"])), export)(tmp_path / "x")
        with pytest.raises(TowerError, match="no tensor 'imag'"):
            getattr(ModelExporter(config(input_names=["imag"])), export)(tmp_path / "x")
    assert os.listdir(tmp_path) == []


def test_a_directory_with_content_is_left_alone(tmp_path: Any) -> None:
    (tmp_path / "other").write_text("mine")
    with pytest.raises(ConfigError, match="expected a directory that is new or empty"):
        ModelExporter(config()).export_serving(tmp_path)
    with pytest.raises(ConfigError, match="expected a directory that is new"):
        ModelExporter(config()).export_serving(tmp_path / "other")
    assert (tmp_path / "other").read_text() == "mine"


def test_exports_may_be_repeated_into_an_empty_directory(tmp_path: Any) -> None:
    exporter = ModelExporter(config())
    (tmp_path / "1").mkdir()
    for version in ("1", "sub/2"):
        exporter.export_serving(tmp_path / version, tags=("serve", "cpu"), signature_name="score")
        with tf.Graph().as_default(), tf.Session() as session:
            loaded = tf.saved_model.load(session, ["serve", "cpu"], str(tmp_path / version))
            assert set(loaded.signature_def) == {"score", "serving_default"}
            assert loaded.signature_def["score"].inputs["image"].name == "image:0"


def test_an_export_that_fails_leaves_nothing(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match="do not fit"):
        wrong = {**WEIGHTS, "bn/gamma": np.zeros(5, "float32")}
        ModelExporter(config(session_init=SmartInit(wrong))).export_serving(tmp_path / "a")

    def fail(self: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(tf.saved_model.Builder, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        ModelExporter(config()).export_serving(tmp_path / "b")
    assert os.listdir(tmp_path) == []


def test_directories_of_exports_are_made(tmp_path: Any) -> None:
    ModelExporter(config()).export_compact(tmp_path / "new" / "directory" / "frozen.pb")
    assert os.listdir(tmp_path / "new" / "directory") == ["frozen.pb"]
    ModelExporter(config()).export_serving(tmp_path / "other" / "1")
    assert os.listdir(tmp_path / "other") == ["1"]


def test_toco_compatible_wants_optimize(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="expected True with toco_compatible=True"):
        ModelExporter(config()).export_compact(tmp_path / "m.pb", optimize=False, toco_compatible=True)
    ModelExporter(config()).export_compact(tmp_path / "m.pb", toco_compatible=True)
    assert os.path.getsize(tmp_path / "m.pb") > 100


def test_a_directory_is_no_file_to_export_to(tmp_path: Any) -> None:
    exporter = ModelExporter(config(session_init=None))
    with pytest.raises(ConfigError, match=r"got filename='.*': expected a file, not a directory; use '.*/model.pb'"):
        exporter.export_compact(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_a_predictor_is_no_config() -> None:
    predictor = OfflinePredictor(PredictConfig(tower_func=lambda x: tf.identity(x, "y"), **EXPORTED))
    with pytest.raises(
        ConfigError, match="ModelExporter got config=.*Predictor: expected a PredictConfig; use the one"
    ):
        ModelExporter(predictor)
    predictor.sess.close()


def test_remote_places_are_refused_and_no_directory_is_made(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for export in (ModelExporter(config()).export_serving, ModelExporter(config()).export_compact):
        with pytest.raises(ConfigError, match="got filename='gs://bucket/model': expected a path on this machine"):
            export("gs://bucket/model")
    assert not list(tmp_path.iterdir())


def test_exports_log_no_deprecations(tmp_path: Any, caplog: Any, monkeypatch: Any) -> None:
    # TensorFlow logs each of them once in a process.
    monkeypatch.setattr(deprecation, "_PRINTED_WARNING", {})
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    exporter = ModelExporter(PredictConfig(tower_func=lambda x: tf.identity(x, "y"), **EXPORTED))
    exporter.export_serving(tmp_path / "served")
    exporter.export_compact(tmp_path / "frozen.pb")
    assert [record.getMessage() for record in caplog.records if "deprecated" in record.getMessage()] == []


EXPORTED: dict[str, Any] = {"input_signature": [tf.TensorSpec([], tf.float32, "x")], "output_names": ["y"]}
