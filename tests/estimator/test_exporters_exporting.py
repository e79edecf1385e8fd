"""SavedModels are written all at once, with the values of a checkpoint, tables and further files."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import save_checkpoint
from tpack.errors import CheckpointError, ConfigError
from tpack.estimator import exporters as exporting
from tpack.estimator.building import ModelParts, build_model
from tpack.estimator.inputs import Inputs, ServingInputReceiver
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec

VALUES = {"scale": np.float32(2), "global_step": np.int64(30)}


def scaling(features, mode):
    local = tf.Variable(100.0, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    return EstimatorSpec(mode, {"scaled": tf.get_variable("scale", []) * features + local})


def receive():
    x = tf.placeholder(tf.float32, [None], name="x")
    return ServingInputReceiver(x, {"x": x})


def export(path, checkpoint, *, model=scaling, **options):
    parts = ModelParts(model, None, RunConfig(), "")
    with tf.Graph().as_default():
        receiver = exporting.call_receiver_fn(receive)
        built = build_model(parts, "infer", lambda: Inputs(receiver.features, None))
        exporting.export_model(parts, built, receiver, checkpoint, exporting.ExportTarget(str(path), **options))


def serve(path, values, key="serving_default"):
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], str(path)).signature_def[key]
        (output,) = signature.outputs.values()
        return session.run(output.name, {signature.inputs["x"].name: values}).tolist()


def test_values_local_variables_and_files(tmp_path):
    (tmp_path / "words").write_text("a b")
    checkpoint = save_checkpoint(tmp_path, VALUES)
    assets = {"deep/words.txt": str(tmp_path / "words")}
    export(tmp_path / "out" / "1", checkpoint, assets_extra=assets, as_text=True)
    assert serve(tmp_path / "out" / "1", [1, 2]) == serve(tmp_path / "out" / "1", [1, 2], "predict") == [102, 104]
    assert (tmp_path / "out" / "1" / "assets.extra" / "deep" / "words.txt").read_text() == "a b"
    assert os.listdir(tmp_path / "out") == ["1"]
    assert (tmp_path / "out" / "1" / "saved_model.pbtxt").exists()


def test_devices_stay_behind(tmp_path):
    def model(features, mode):
        with tf.device("/device:CPU:5"):
            return scaling(features, mode)

    export(tmp_path / "1", save_checkpoint(tmp_path, VALUES), model=model)
    # A session has one CPU device unless it asks for more.
    assert serve(tmp_path / "1", [1, 2]) == [102, 104]
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.saved_model.load(session, ["serve"], str(tmp_path / "1"))
        assert "/device:CPU:5" not in {operation.device for operation in graph.get_operations()}


def test_tables_and_assets_travel(tmp_path):
    words = tmp_path / "vocabulary"
    words.write_text("zero\none\ntwo\n")

    def model(features, mode):
        tf.get_variable("scale", [])
        table = tf.lookup.StaticVocabularyTable(
            tf.lookup.TextFileInitializer(
                str(words), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
            ),
            num_oov_buckets=1,
        )
        return EstimatorSpec(mode, {"ids": table.lookup(tf.constant(["two", "none"]))})

    export(tmp_path / "out", save_checkpoint(tmp_path, VALUES), model=model)
    words.unlink()
    assert serve(tmp_path / "out", [1]) == [2, 3]


def test_initialisation_and_saver_of_the_models_own(tmp_path):
    def model(features, mode):
        spec = scaling(features, mode)
        (local,) = tf.local_variables()
        saver = tf.train.Saver({"averaged": tf.trainable_variables()[0]})
        return spec._replace(scaffold=tf.train.Scaffold(local_init_op=local.assign(7.0).op, saver=saver))

    export(tmp_path / "out", save_checkpoint(tmp_path, {**VALUES, "averaged": 3.0}), model=model)
    assert serve(tmp_path / "out", [1, 2]) == [10, 13]


def test_directories_have_different_numbers(tmp_path):
    first = exporting.new_export_dir(str(tmp_path))
    os.mkdir(first)
    second = exporting.new_export_dir(str(tmp_path))
    assert int(os.path.basename(second)) > int(os.path.basename(first))
    assert os.path.dirname(second) == str(tmp_path)


def test_nothing_is_left_of_what_fails(tmp_path):
    checkpoint = save_checkpoint(tmp_path, {"scale": np.zeros(3, "float32"), "global_step": np.int64(1)})
    with pytest.raises(CheckpointError, match=r"scale has shape \[3\]"):
        export(tmp_path / "out" / "1", checkpoint)
    assert os.listdir(tmp_path / "out") == []


def test_a_model_without_outputs_is_refused(tmp_path):
    def model(features, mode):
        return scaling(features, mode)._replace(export_outputs={})

    with pytest.raises(ConfigError, match="no export_outputs"):
        export(tmp_path / "out", save_checkpoint(tmp_path, VALUES), model=model)


@pytest.mark.parametrize(
    ("given", "message"),
    [(3, "receiver_fn=3: expected a function"), (lambda: 3, "returned 3: expected a ServingInputReceiver")],
)
def test_what_is_no_receiver_is_refused(graph, given, message):
    with pytest.raises(ConfigError, match=message):
        exporting.call_receiver_fn(given)
