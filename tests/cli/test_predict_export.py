"""Projects are used after they are trained: on data, and by other programs; and what cannot work is refused."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.cli import project
from tpack.cli.main import main

POINTS = np.array([[0, 0], [1.4, 1.4], [0.1, -0.1], [-1.4, 1.2], [0.2, 0.2]])
MORE = """
import tensorflow.compat.v1 as tf
from tpack import ModelDesc

class Sum(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "a"), tf.TensorSpec([None, 2], tf.int32, "b")]

    def build_graph(self, a, b):
        tf.reduce_sum(a, name="all")
        return tf.reduce_mean(a * tf.get_variable("w", [], initializer=tf.ones_initializer()), name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)

CONFIG = {"outputs": ["all"]}

def predict_arguments(config):
    return {"model": Sum(), "output_names": config["outputs"], "session_init": None}
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The directory of a new project that was trained with a setting of its own."""
    directory = tmp_path_factory.mktemp("trained") / "mine"
    before = list(project.sys.path)
    with pytest.MonkeyPatch.context() as patch:
        assert main(["new", str(directory)]) == 0
        patch.chdir(directory)
        with tf.Graph().as_default():
            assert main(["train", "project.py", "--set", "model.width=16", "--set", "train.max_epoch=4"]) == 0
        project.sys.path[:] = before
    project.importlib.import_module("tpack.utils.logger").close_logger_dir()
    return directory


@pytest.fixture
def inside(trained, monkeypatch):
    monkeypatch.chdir(trained)
    monkeypatch.setattr("sys.path", list(project.sys.path))
    return trained


def test_a_trained_project_says_what_it_thinks_of_points(inside, tmp_path, capsys):
    np.savez(tmp_path / "points.npz", point=POINTS, is_inside=0)
    np.save(tmp_path / "points.npy", POINTS.astype(np.float32))
    found = []
    for data, more in (("points.npz", []), ("points.npy", ["--batch-size", "2"])):
        out = tmp_path / f"of-{data}.npz"
        assert main(["predict", "project.py", str(tmp_path / data), "--out", str(out), *more]) == 0
        assert "probability  [5]      float32" in capsys.readouterr().out
        found.append(np.load(out)["probability"])
    assert ((found[0] > 0.5) == [True, False, True, False, True]).all()
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_a_trained_project_is_exported(inside, tmp_path, capsys):
    assert main(["export", "project.py", str(tmp_path / "model" / "1")]) == 0
    assert main(["export", "project.py", str(tmp_path / "model.pb")]) == 0
    told = [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()]
    assert told == ["a SavedModel, point -> probability", "a frozen graph, point -> probability"]
    with tf.Graph().as_default(), tf.Session() as session:
        meta_graph = tf.saved_model.load(session, ["serve"], str(tmp_path / "model" / "1"))
        signature = meta_graph.signature_def["serving_default"]
        feed = {signature.inputs["point"].name: POINTS}
        served = session.run(signature.outputs["probability"].name, feed)
    graph_def = tf.GraphDef.FromString((tmp_path / "model.pb").read_bytes())
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        np.testing.assert_allclose(session.run("probability:0", {"point:0": POINTS}), served, rtol=1e-5)


def test_settings_of_the_training_are_known_and_can_be_changed(tmp_path):
    config = {"a": {"b": 1, "later": 2}, "shape": (1, 2)}
    assert project.config_of_training(config, str(tmp_path), []) == config
    (tmp_path / "settings.json").write_text(json.dumps({"a": {"b": 5, "gone": 6}, "shape": [3]}))
    wanted = {"a": {"b": 5, "later": 9}, "shape": (3,)}
    assert project.config_of_training(config, str(tmp_path), ["a.later=9"]) == wanted
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(project.ConfigError, match=r"settings\.json is not valid JSON"):
        project.config_of_training(config, str(tmp_path), [])


def test_settings_that_json_does_not_hold_are_a_warning(tmp_path, capsys):
    project._leave_settings({"a": {1, 2}}, str(tmp_path))
    assert "settings.json is not written" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["empty.py", "a.npy"], "a function predict_arguments(config) that returns {'model': ..., 'input_names'"),
        (["wrong.py", "a.npy"], "predict_arguments of 'wrong.py' returned an object of int: expected a dict"),
        (["more.py", "a.npy", "--batch-size", "0"], "--batch-size got 0: expected a positive number"),
        (["more.py", "a.npy", "--out", "a.csv"], "--out got 'a.csv': expected a file that ends in .npz"),
        (["more.py", "a.csv"], "data got 'a.csv': expected an .npz or .npy file"),
        (["more.py", "none.npz"], "data got 'none.npz': expected a file that exists"),
        (["one.py", "damaged.npy"], "damaged.npy cannot be read"),
        (["more.py", "a.npy"], "a.npy has one array: expected an .npz file, for a, b"),
        (["more.py", "a.npz"], "a.npz has a: expected an array for b as well"),
        (["more.py", "shape.npz"], "the input b got the shape [3]: expected (None, 2)"),
        (["more.py", "kind.npz"], "the input b got float64: expected int32"),
        (["more.py", "length.npz"], "has {'a': 3, 'b': 2} examples: expected the same number for each input"),
        (["more.py", "right.npz"], "the output all has the shape [] for 3 example(s): expected a value for each"),
        (["untrained.py", "right.npz"], "train_log/untrained has no checkpoint: use `tpack train untrained.py`"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path, monkeypatch, capsys, arguments, message):
    (tmp_path / "empty.py").write_text("CONFIG = {}\n", encoding="utf-8")
    (tmp_path / "wrong.py").write_text("CONFIG = {}\npredict_arguments = len\n", encoding="utf-8")
    (tmp_path / "more.py").write_text(MORE, encoding="utf-8")
    (tmp_path / "untrained.py").write_text(MORE.replace(', "session_init": None', ""), encoding="utf-8")
    (tmp_path / "one.py").write_text(MORE.replace('"model"', '"input_names": ["a"], "model"'), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(project.sys.path))
    np.save("a.npy", np.ones(3))
    (tmp_path / "damaged.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-1])
    np.savez("a.npz", a=np.ones(3))
    np.savez("shape.npz", a=np.ones(3), b=np.ones(3, np.int32))
    np.savez("kind.npz", a=np.ones(3), b=np.ones([3, 2]))
    np.savez("length.npz", a=np.ones(3), b=np.ones([2, 2], np.int32))
    np.savez("right.npz", a=np.ones(3), b=np.ones([3, 2], np.int32))
    assert main(["predict", *arguments]) == 2
    assert message in capsys.readouterr().err
