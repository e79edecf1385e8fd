"""All older names resolve, each says once how it is spelled today, and TensorFlow is not loaded for those of data."""

import importlib
import subprocess
import sys

import pytest

import tpack
from tests.helpers.source import ROOT
from tpack.legacy import table
from tpack.public_names import FOR_STAR
from tpack.utils import logger


@pytest.fixture
def lines(monkeypatch):
    """The lines that are said in the test."""
    said = []
    monkeypatch.setattr(logger, "info", said.append)
    monkeypatch.setattr(table, "_said", set())
    return said


@pytest.mark.parametrize("path", table.MODULES)
def test_every_older_module_has_all_of_its_names(path):
    module = importlib.import_module(f"tpack.{path}")
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []
    assert set(module.__all__) <= set(dir(module))


def test_every_older_name_is_given_by_tpack_and_its_package():
    names = [name for of_module in table.NAMES.values() for name in of_module]
    assert sorted(names) == sorted(set(names)) == sorted(importlib.import_module("tpack.legacy").__all__)
    for name in names:
        assert getattr(tpack, name) is table.load(name)
    assert set(FOR_STAR) <= set(tpack.__all__)


def test_a_star_gives_what_older_scripts_expect():
    names = {}
    exec("from tpack import *", names)
    assert names["InputDesc"] is table.load("InputDesc")
    assert tpack.symbolic_functions.__name__ == "tpack.tfutils.symbolic_functions"
    assert tpack.dftools.dump_dataflow_to_lmdb


def test_a_module_says_once_where_its_names_are(lines):
    exec(
        "from tpack.dataflow.common import BatchData, MapData\nimport tpack.dataflow.common as common\ncommon.BatchData"
    )
    assert lines == ["tensorpack's older name tpack.dataflow.common: today it is tpack.dataflow"]
    assert sys.modules["tpack.dataflow.common"].BatchData is tpack.BatchData


def test_names_in_modules_of_today_are_found(lines):
    module = importlib.import_module("tpack.graph_builder.model_desc")
    assert module.InputDesc is table.load("InputDesc")
    assert module.SimpleBuilder is importlib.import_module("tpack.graph_builder").SimpleBuilder
    assert lines == [
        "tensorpack's older name tpack.graph_builder.model_desc.SimpleBuilder: today it is "
        "tpack.graph_builder.SimpleBuilder"
    ]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("callbacks.saver", "MaxSaver"),
        ("callbacks.summary", "MovingAverageSummary"),
        ("models.batch_norm", "BatchRenorm"),
        ("models.conv2d", "Deconv2D"),
        ("models.pool", "BilinearUpSample"),
        ("models.regularize", "Dropout"),
        ("predict.base", "OfflinePredictor"),
        ("train.config", "AutoResumeTrainConfig"),
        ("train.trainers", "QueueInputTrainer"),
    ],
)
def test_names_that_have_a_module_of_their_own_today_are_found_where_they_were(module, name):
    assert getattr(importlib.import_module(f"tpack.{module}"), name) is getattr(tpack, name)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="older names have no 'Nothing'"):
        table.load("Nothing")
    with pytest.raises(AttributeError, match=r"no attribute 'Nothing'; tpack\.dataflow has none"):
        _ = importlib.import_module("tpack.dataflow.common").Nothing
    with pytest.raises(AttributeError, match="has no attribute '__file__'"):
        _ = importlib.import_module("tpack.dataflow.common").__file__
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = importlib.import_module("tpack.tfutils.common").Nothing


def test_names_of_data_load_no_tensorflow():
    code = (
        "import sys, tpack\nfrom tpack.dataflow.common import BatchData\nfrom tpack.dataflow import PrefetchDataZMQ\n"
        "import tpack.callbacks.param, tpack.models, tpack.legacy\nsys.exit('tensorflow' in sys.modules)"
    )
    code = code.replace(", tpack.models", "")
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
