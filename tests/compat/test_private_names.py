"""Each private name of TensorFlow has a way out: training goes on equally, or an error says what is missing."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import preloaded, without_names
from tests.helpers.nameless_training import ENTRIES
from tpack.compat import private_names
from tpack.compat.private_names import (
    FEATURES,
    TESTED,
    PrivateFeature,
    check_version,
    missing_features,
    missing_names,
    private_module,
)
from tpack.errors import DependencyError

NAMES = {feature.name: feature.names for feature in FEATURES}
ALL = sorted({name for names in NAMES.values() for name in names})
WITHOUT_WAY = [feature.name for feature in FEATURES if not feature.way_out]


def run_without(names, entries=()):
    arguments = [json.dumps(sorted(names)), json.dumps(list(entries))]
    done = preloaded.run(Path(without_names.__file__), arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def whole():
    return run_without([])


def test_the_installed_tensorflow_has_all():
    assert missing_features() == []
    assert all(missing_names(feature) == () for feature in NAMES)


def test_features_are_listed_once_and_all_that_fail_have_an_entry():
    assert len(NAMES) == len(FEATURES)
    in_error = {"tf.contrib.opt's LazyAdamOptimizer and NadamOptimizer", "slots of optimizers"}
    assert set(WITHOUT_WAY) - in_error <= set(ENTRIES)


@pytest.mark.parametrize(
    "features",
    [
        ["copied towers"],
        ["many operations at once", "calls of fixed fetches", "variables of tf.get_variable"],
        ["merge calls of towers", "scopes of towers", "seeds in loops and gradients", "settings of TensorFlow"],
        [name for name in NAMES if name != "slots of optimizers"],
    ],
    ids=lambda features: features[0] if len(features) < 9 else "all",
)
def test_three_towers_train_equally_without_the_names_of_some_features(whole, features):
    found = run_without({name for feature in features for name in NAMES[feature]})
    assert found["weights"].keys() == whole["weights"].keys()
    for name, value in whole["weights"].items():
        # In another order of sums where attributes of operations cannot be set.
        np.testing.assert_allclose(found["weights"][name], value, rtol=1e-6)
    assert whole["log"] == []
    are_copied = not set(NAMES["copied towers"]) & {name for feature in features for name in NAMES[feature]}
    assert bool(found["log"]) is not are_copied


def test_features_without_a_way_out_say_in_one_line_what_is_missing():
    found = run_without(ALL, ENTRIES)["errors"]
    for feature, message in found.items():
        assert message.startswith("DependencyError: "), (feature, message)
        assert "\n" not in message
        assert f"expected TensorFlow {TESTED}" in message
        assert any(name in message for name in NAMES[feature]), (feature, message)


def test_entries_raise_nothing_where_all_is_there():
    named = [name for name in ENTRIES if name not in ("traces of steps", "iterators of strategies")]
    assert set(run_without([], named)["errors"].values()) == {""}


def test_an_older_tensorflow_is_refused(monkeypatch):
    monkeypatch.setattr(tf, "__version__", "2.15.1")
    with pytest.raises(DependencyError, match=f"tpack got TensorFlow 2.15.1: expected {TESTED}; use pip install"):
        check_version()


@pytest.mark.parametrize("version", ["2.16.0", "2.21.0", "2.22.0-rc0"])
def test_a_tested_tensorflow_is_taken_in_silence(monkeypatch, version):
    monkeypatch.setattr(tf, "__version__", version)
    with warnings.catch_warnings(record=True) as caught:
        check_version()
    assert caught == []


def test_of_a_newer_tensorflow_it_is_said_what_it_lacks(monkeypatch):
    monkeypatch.setattr(tf, "__version__", "2.23.0-dev20261026")
    with pytest.warns(UserWarning, match=f"newer than the tested {TESTED}. Private names that it lacks: none;"):
        check_version()
    monkeypatch.setattr(private_names, "missing_features", lambda: [(FEATURES[0], FEATURES[0].names)])
    with pytest.warns(UserWarning, match="lacks: copied towers: towers are built, as by tower_building='build';"):
        check_version()


def test_a_missing_module_says_so_when_it_is_used():
    module = private_module("tensorflow.python.no_such_module")
    assert not module
    with pytest.raises(
        DependencyError, match=r"tpack got TensorFlow .* without tensorflow.python.no_such_module: expec"
    ):
        module.anything  # noqa: B018
    assert not hasattr(module, "__path__")
    assert PrivateFeature("a", ("b",)).way_out == ""
