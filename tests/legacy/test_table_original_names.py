"""The names in each ``__all__`` of tensorpack 0.11 are in the modules of tpack with those paths."""

import importlib
from pathlib import Path

import pytest

import tpack
from tests.helpers.source import assert_none

LINES = (Path(__file__).parent / "data" / "tensorpack_names.txt").read_text(encoding="utf-8").splitlines()[1:]
PARTS = [line.partition(": ") for line in LINES]
NAMES = {module.replace("tensorpack", "tpack", 1): names.split() for module, _, names in PARTS}


def test_the_list_is_that_of_the_whole_package():
    assert len(NAMES) > 100
    assert {"tpack", "tpack.callbacks.base", "tpack.dataflow.imgaug.base", "tpack.utils.loadcaffe"} <= NAMES.keys()


@pytest.mark.parametrize("path", NAMES)
def test_a_module_has_the_names_that_it_had(path):
    module = importlib.import_module(path)
    missing = []
    for name in NAMES[path]:
        try:
            getattr(module, name)
        except AttributeError:
            missing.append(f"{path}.{name}")
    assert_none(missing)


def test_a_star_gives_what_it_gave():
    names = {}
    exec("from tpack import *", names)
    assert_none(sorted(set(NAMES["tpack"]) - names.keys()))
    assert_none(name for name in NAMES["tpack"] if getattr(tpack, name) is not names[name])
