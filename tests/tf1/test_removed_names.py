"""Names of TensorFlow 1 that are not here: what is raised, and what it says."""

import importlib
import inspect
import operator

import pytest

import tpack.tf1 as tf
from tests.helpers.source import ROOT
from tpack.errors import MissingNameError, TpackError
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.tf1 import removed_names
from tpack.train.trainers import SyncMultiGPUTrainerReplicated


def test_a_name_of_the_table_says_what_to_use():
    with pytest.raises(
        MissingNameError, match=r"tf\.contrib\.tensor_forest is not there: use RandomForest of scikit-learn"
    ):
        tf.contrib.tensor_forest  # noqa: B018 (reading it is the test)
    assert issubclass(MissingNameError, AttributeError)
    assert issubclass(MissingNameError, TpackError)
    assert not hasattr(tf.contrib, "tensor_forest")


def test_a_name_in_a_namespace_that_is_gone_gives_the_reason_of_the_namespace():
    error = removed_names.missing_name("tpack.tf1.contrib", "tpu.keras_to_tpu_model")
    assert "tf.contrib.tpu.keras_to_tpu_model is not there: there are no TPUs" in str(error)


def test_an_unknown_name_gives_those_near():
    with pytest.raises(MissingNameError, match="tf.nn.reluu is not there: .*did you mean 'relu'"):
        tf.nn.reluu  # noqa: B018 (reading it is the test)
    with pytest.raises(MissingNameError, match="tf.Sesion .*did you mean 'Session'"):
        tf.Sesion  # noqa: B018 (reading it is the test)


def test_an_import_that_fails_says_why():
    with pytest.raises(ImportError, match="use RandomForest of scikit-learn"):
        from tpack.tf1.contrib import tensor_forest  # noqa: F401, PLC0415 (importing it is the test)
    with pytest.raises(ImportError, match="cannot import name 'reluu'"):
        from tpack.tf1.nn import reluu  # noqa: F401, PLC0415 (importing it is the test)


@pytest.mark.parametrize(
    ("module", "advice"),
    [
        ("tpu.python.tpu", "tf.contrib.tpu.python is not there: there are no TPUs here"),
        ("tensor_forest.python", "tf.contrib.tensor_forest is not there: use RandomForest of scikit-learn"),
        (
            "layers.python.layers",
            "tf.contrib.layers.python is not there: import its names from tpack.tf1.contrib.layers",
        ),
        ("crf.python.ops.crf", "tf.contrib.crf.python is not there: import its names from tpack.tf1.contrib.crf"),
        ("distribute.python.nobody", "import its names from tpack.tf1.contrib.distribute.python"),
        ("of_nobody", "tf.contrib.of_nobody is not there: neither TensorFlow nor tpack has it"),
    ],
)
def test_an_import_below_contrib_that_fails_says_what_to_use(module, advice):
    with pytest.raises(ModuleNotFoundError, match=advice):
        importlib.import_module(f"tpack.tf1.contrib.{module}")


def test_a_module_that_is_no_package_is_imported_as_before():
    assert importlib.import_module("tpack.tf1.contrib.crf").crf_decode is tf.contrib.crf.crf_decode
    assert not hasattr(tf.contrib.tpu, "python")
    assert not hasattr(tf.contrib, "of_nobody")


def test_the_argument_for_averages_of_models_is_one_of_the_replicated_trainers():
    advice = str(removed_names.missing_name("tpack.tf1.contrib", "opt.ElasticAverageOptimizer"))
    assert "use a trainer of replicated towers with sync_every_steps" in advice
    for trainer in (SyncMultiGPUTrainerReplicated, MultiWorkerTrainerReplicated):
        assert "sync_every_steps" in inspect.signature(trainer).parameters


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("estimator.BoostedTreesClassifier", "use HistGradientBoosting of scikit-learn, ydf or xgboost"),
        ("compat.v1.estimator.BoostedTreesRegressor", "use HistGradientBoosting of scikit-learn, ydf or xgboost"),
        ("contrib.boosted_trees", "use HistGradientBoosting of scikit-learn, ydf or xgboost"),
        ("contrib.tensor_forest.client", "use RandomForest of scikit-learn, or ydf"),
        ("contrib.factorization.KMeansClustering", "use MiniBatchKMeans of scikit-learn"),
        ("compat.v1.estimator.experimental.KMeans", "use MiniBatchKMeans of scikit-learn"),
    ],
)
def test_trees_forests_and_k_means_name_the_packages_and_the_page(name, advice):
    title = "Trees, forests and k-means"
    with pytest.raises(MissingNameError) as caught:
        operator.attrgetter(name)(tf)
    asked = name.removeprefix("compat.v1.")
    # Of a namespace that is gone as a whole, the error is that of the namespace.
    assert asked.startswith(str(caught.value).split()[0].removeprefix("tf."))
    told = removed_names.reason_for(asked)
    assert told == f"{advice}; '{title}' in docs/tf1.md shows how"
    assert f"\n### {title}\n" in (ROOT / "docs" / "tf1.md").read_text(encoding="utf-8")
