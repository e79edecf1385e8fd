"""What each package offers is written by hand, once: a name that comes or goes is a decision, not an accident.

The names of `tpack` are in ``tpack/public_names.py``, those of a package in its ``__all__``. The page of names is
built from both.
"""

import importlib
import re
import subprocess
import sys

import pytest

from tests.helpers.source import ROOT, assert_none, modules_under
from tools.docs import names_page

PACKAGES = [module.name for module in modules_under("tpack") if module.is_package]

# What is used every day in these packages is offered by tpack itself, all of it.
EVERYDAY = [
    "tpack.callbacks",
    "tpack.dataflow",
    "tpack.input_source",
    "tpack.models",
    "tpack.predict",
    "tpack.train",
    "tpack.utils",
]


def test_the_page_of_names_has_a_summary_of_each():
    rows = re.findall(r"^\| `(\w+)` \| `([\w.]+)` \| (.*) \|$", names_page.page(), re.M)
    assert_none(f"{package}.{name}" for name, package, summary in rows if not summary)
    # Each name of a package stands there, under this package or another one that has the same thing.
    shown = {id(getattr(importlib.import_module(package), name)) for name, package, _ in rows}
    modules = {name: importlib.import_module(name) for name in PACKAGES if not f"{name}.".startswith("tpack.tf1.")}
    offered = [(name, member, getattr(module, member)) for name, module in modules.items() for member in module.__all__]
    assert_none(f"{name}.{member}" for name, member, value in offered if name != "tpack" and id(value) not in shown)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_resolves(package):
    module = importlib.import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)


@pytest.mark.parametrize("package", EVERYDAY)
def test_everyday_names_are_offered_by_tpack_and_are_the_same(package):
    top, module = importlib.import_module("tpack"), importlib.import_module(package)
    for name in module.__all__:
        assert getattr(top, name) is getattr(module, name)


def exit_code(code):
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode


def test_star_import_gives_every_name():
    code = "from tpack import *; import tpack; assert set(tpack.__all__) < set(globals())"
    assert exit_code(code) == 0


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'SyncMultiGPUTrainerReplicate'"):
        importlib.import_module("tpack").SyncMultiGPUTrainerReplicate  # noqa: B018 (reading it is the test)


def test_a_name_without_tensorflow_loads_no_tensorflow():
    code = "import sys; from tpack import BatchData, logger; assert 'tensorflow' not in sys.modules"
    assert exit_code(code) == 0
