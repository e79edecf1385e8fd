import json

import pytest

from tpack.errors import DependencyError
from tpack.utils.optional import import_optional


def test_a_module_that_is_there_is_returned():
    assert import_optional("json", "test") is json


def test_a_missing_module_names_itself_and_the_extra():
    with pytest.raises(DependencyError, match=r"no_such_module_of_ours.*pip install 'tpack\[vision\]'"):
        import_optional("no_such_module_of_ours", "vision")


def test_a_missing_module_is_an_import_error_too():
    with pytest.raises(ImportError):
        import_optional("no_such_module_of_ours", "vision")
