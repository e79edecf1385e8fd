"""Lazy packages: names come on first use, and a bad table is refused."""

import importlib
import json
import sys

import pytest
from tensorflow.python.autograph.impl.api import is_autograph_artifact

import tpack
from tests.helpers.source import assert_none, modules_under
from tpack.errors import ConfigError, DependencyError
from tpack.utils.lazy import LazyModule, attach, import_optional


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


def test_autograph_leaves_functions_of_tpack_alone_and_takes_those_of_others(lazy_package):
    def of_tpack():
        pass

    def of_others():
        pass

    of_tpack.__module__ = "tpack.tfutils.common"
    first = importlib.import_module("lazy_example.first")
    first.alpha, first.beta = of_tpack, of_others
    assert lazy_package.alpha is of_tpack
    assert is_autograph_artifact(lazy_package.alpha)
    assert not is_autograph_artifact(lazy_package.beta)


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


def test_names_of_other_modules_are_given_under_any_name(lazy_package):
    table = {
        "first": ("alpha", "gamma=beta"),
        "second": ("second=", "third="),
        "tpack.errors": ("ConfigError",),
        "tpack.utils.lazy": (),
    }
    load, _, public = attach("lazy_example", table, other=str.upper)
    assert public == ["ConfigError", "alpha", "gamma", "lazy", "second", "third"]
    assert (load("gamma"), load("unknown")) == (2, "UNKNOWN")
    assert load("third") is load("second") is lazy_package.second
    assert load("ConfigError") is ConfigError
    assert load("lazy") is sys.modules["tpack.utils.lazy"]


def test_name_of_a_submodule_raises():
    with pytest.raises(ConfigError, match="'b' of 'a' is also the name of a submodule"):
        attach("package", {"a": ("b",), "b": ("y",)})


def test_modules_are_attributes_without_an_import_of_their_own(lazy_package):
    assert lazy_package.first.hidden == 3
    assert vars(lazy_package)["first"] is sys.modules["lazy_example.first"]
    with pytest.raises(AttributeError, match="no attribute 'third'"):
        _ = lazy_package.third
    with pytest.raises(AttributeError, match="no attribute '__wrapped__'"):
        _ = lazy_package.__wrapped__


def test_a_package_without_public_names_gives_its_modules_too(tmp_path, monkeypatch):
    folder = tmp_path / "bare_example"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from tpack.utils.lazy import attach\n__getattr__, __dir__, __all__ = attach(__name__, {})\n"
    )
    (folder / "first.py").write_text("value = 5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    package = importlib.import_module("bare_example")
    assert "bare_example.first" not in sys.modules
    assert package.first.value == 5
    with pytest.raises(AttributeError, match="module 'bare_example' has no attribute 'second'"):
        _ = package.second
    del sys.modules["bare_example"], sys.modules["bare_example.first"]


def make_package(folder, monkeypatch, table, **modules):
    """Write and import a package ``made_example`` with an ``attach`` of `table` and modules with the given texts."""
    (folder / "made_example").mkdir()
    text = f"from tpack.utils.lazy import attach\n__getattr__, __dir__, __all__ = attach(__name__, {table})\n"
    for name, content in {"__init__": text, **modules}.items():
        (folder / "made_example" / f"{name}.py").write_text(content)
    monkeypatch.syspath_prepend(str(folder))
    for name in [name for name in sys.modules if name.split(".")[0] == "made_example"]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("made_example")


def test_names_and_modules_from_outside_of_the_package(tmp_path, monkeypatch):
    table = {"tpack.errors": ("ConfigError",), "tpack.utils.logger": ()}
    package = make_package(tmp_path, monkeypatch, table)
    assert package.__all__ == ["ConfigError", "logger"]
    assert package.ConfigError is ConfigError
    assert package.logger is tpack.logger


def test_a_public_name_stays_when_the_module_of_its_name_is_loaded(tmp_path, monkeypatch):
    table = {"first": ("first", "second"), "third": ()}
    modules = {"first": "def first(): return 1\nsecond = 2\n", "third": "value = 3\n"}
    package = make_package(tmp_path, monkeypatch, table, **modules)
    importlib.import_module("made_example.first")
    importlib.import_module("made_example.third")
    assert (package.first(), package.second, package.third.value) == (1, 2, 3)
    assert sys.modules["made_example.first"].second == 2


def test_a_package_can_look_up_or_refuse_other_names(lazy_package):
    def other(name):
        if name == "found":
            return 7
        raise AttributeError(f"{name} was removed: use alpha")

    load, _, _ = attach("lazy_example", {"first": ("alpha",)}, other=other)
    assert (load("alpha"), load("found")) == (1, 7)
    for name in ("gone", "_gone"):
        with pytest.raises(AttributeError, match=f"^{name} was removed: use alpha"):
            load(name)


def test_every_module_of_tpack_is_an_attribute_of_its_package():
    # What packages of tpack.tf1 have is what TensorFlow 1 had, and older names stand in packages of today.
    elsewhere = ("tpack.tf1.", "tpack.legacy.code.", "tpack.__main__.")
    assert_none(
        module.name
        for module in modules_under("tpack")
        if module.name != "tpack" and not f"{module.name}.".startswith(elsewhere) and reached(module.name) is None
    )


def reached(name):
    """Return what the attributes of a name give, from ``tpack`` on."""
    value = tpack
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def test_lazy_module_is_imported_with_its_first_attribute(lazy_package):
    module = LazyModule("lazy_example.second")
    assert not module.is_loaded()
    assert module.value == 4
    assert module.is_loaded()
    with pytest.raises(AttributeError, match="other"):
        assert module.other


def test_an_optional_module_that_is_there_is_returned():
    assert import_optional("json", "test") is json


def test_a_missing_optional_module_names_itself_and_the_extra():
    with pytest.raises(DependencyError, match=r"no_such_module_of_ours.*pip install 'tpack\[vision\]'"):
        import_optional("no_such_module_of_ours", "vision")


def test_a_missing_optional_module_is_an_import_error_too():
    with pytest.raises(ImportError):
        import_optional("no_such_module_of_ours", "vision")
