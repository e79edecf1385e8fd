"""Classes and functions of today under older names."""

import pickle

from tpack.legacy import table
from tpack.legacy.code.renamed import older_class, older_function
from tpack.utils import logger


class Today:
    def __init__(self, number):
        self.number = number


Earlier = older_class("Earlier", Today, module=__name__)


def test_an_older_class_is_todays_and_says_so(monkeypatch):
    said = []
    monkeypatch.setattr(logger, "info", said.append)
    monkeypatch.setattr(table, "_said", set())

    class OfUser(Earlier):
        pass

    assert (Earlier(3).number, OfUser(4).number) == (3, 4)
    assert isinstance(Earlier(3), Today)
    assert said == ["tensorpack's older name Earlier: today it is Today"]
    assert pickle.loads(pickle.dumps(Earlier(5))).number == 5


def test_an_older_function_does_its_work_and_keeps_its_name():
    @older_function("twice(x)", "2 * x")
    def twice(x):
        """Double it."""
        return 2 * x

    assert (twice(4), twice.__name__, twice.__doc__) == (8, "twice", "Double it.")
