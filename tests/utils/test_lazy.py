"""Lazy packages: names come on first use, and a bad table is refused."""

import importlib
import sys

import pytest

from tpack.errors import ConfigError
from tpack.utils.lazy import attach


@pytest.fixture
def lazy_package(tmp_path, monkeypatch):
    """A package ``lazy_example`` of two submodules on the import path, imported."""
    folder = tmp_path / "lazy_example"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from tpack.utils.lazy import attach\n"
        "table = {'first': ('alpha', 'beta'), 'second': ()}\n"
        "__getattr__, __dir__, __all__ = attach(__name__, table)\n"
    )
    (folder / "first.py").write_text("alpha, beta, hidden = 1, 2, 3\n")
    (folder / "second.py").write_text("value = 4\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("lazy_example")
    for name in [name for name in sys.modules if name.split(".")[0] == "lazy_example"]:
        del sys.modules[name]


def test_import_of_package_loads_no_submodule(lazy_package):
    assert "lazy_example.first" not in sys.modules
    assert lazy_package.__all__ == ["alpha", "beta", "second"]


def test_name_is_loaded_on_first_use_and_kept(lazy_package):
    assert "alpha" not in vars(lazy_package)
    assert lazy_package.alpha == 1
    assert vars(lazy_package)["alpha"] == 1
    assert "lazy_example.second" not in sys.modules


def test_submodule_without_names_is_itself_public(lazy_package):
    assert lazy_package.second.value == 4


def test_star_import_gives_all_names(lazy_package):
    namespace = {}
    exec("from lazy_example import *", namespace)
    assert namespace["beta"] == 2
    assert namespace["second"] is sys.modules["lazy_example.second"]


def test_dir_lists_what_is_there_and_what_can_be_loaded(lazy_package):
    assert {"alpha", "beta", "second", "table"} <= set(dir(lazy_package))


def test_unknown_name_raises_with_near_names(lazy_package):
    with pytest.raises(AttributeError, match="no attribute 'alpah'; did you mean 'alpha'"):
        _ = lazy_package.alpah


def test_unknown_name_without_near_names_raises(lazy_package):
    with pytest.raises(AttributeError, match="no attribute 'hidden'$"):
        _ = lazy_package.hidden


def test_name_given_twice_raises():
    with pytest.raises(ConfigError, match="'x' is given by both 'a' and 'b'"):
        attach("package", {"a": ("x",), "b": ("x",)})


def test_name_of_a_submodule_raises():
    with pytest.raises(ConfigError, match="'b' of 'a' is also the name of a submodule"):
        attach("package", {"a": ("b",), "b": ("y",)})
