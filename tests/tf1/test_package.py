"""Each public name of TensorFlow 1.15 is there, or says what to use in its place."""

import pkgutil
from collections import Counter
from importlib import import_module
from types import ModuleType

import pytest
import tensorflow.compat.v1 as tfv1

import tpack.tf1
from tests.helpers.source import ROOT, assert_none
from tools.docs import tf1_page
from tpack.tf1.removed_names import MISSING, reason_for

NAMES = tf1_page.names()


def test_each_name_is_there_or_refused_with_a_reason():
    assert len(NAMES) > 3500
    assert_none(name.wanted for name in NAMES if name.home == "" and reason_for(name.wanted) is None)


def test_no_reason_is_given_for_what_is_there():
    there = {name.wanted for name in NAMES if name.home}
    # A namespace may be there in part.
    assert_none(name for name in MISSING if name in there and not isinstance(tf1_page.find(name), ModuleType))


def test_the_page_counts_every_name_and_replaces_each_that_is_gone():
    page = tf1_page.page()
    homes = Counter(name.home for name in NAMES)
    assert f"| all | {len(NAMES)} | {homes['TensorFlow']} | {homes['tpack']} | {homes['']} |" in page
    whole = {f"tf.{name.wanted}" for name in NAMES if name.home == "" and name.namespace == "tf.contrib"}
    gone = [f"tf.{name.wanted}" for name in NAMES if name.home == ""]
    assert_none(name for name in gone if f"`{name}`" not in page and ".".join(name.split(".")[:3]) not in whole)
    compared = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert f"{homes['tpack']} of their names, {homes['']} refused" in compared


def test_tensorflow_s_names_are_all_there():
    ours = {"app", "compat", "contrib", "estimator", "flags", "layers", "nn"}
    ours |= {"reset_default_graph", "get_default_graph"}
    public = [name for name in dir(tfv1) if name not in ours]
    assert_none(name for name in public if tpack.tf1._load(name) is not getattr(tfv1, name))
    # These are TensorFlow's own only in name: they raise.
    for gone in (tfv1.layers, tfv1.nn.rnn_cell):
        with pytest.raises(ModuleNotFoundError):
            dir(gone)


def test_every_module_resolves_what_it_offers():
    modules = [import_module(found.name) for found in pkgutil.walk_packages(tpack.tf1.__path__, "tpack.tf1.")]
    offering = [module for module in modules if hasattr(module, "__all__")]
    assert len(offering) > 20
    for module in offering:
        assert set(module.__all__) <= set(dir(module))
        assert_none(f"{module.__name__}.{name}" for name in module.__all__ if getattr(module, name) is None)
