"""The module that scripts import threads and processes from."""

import copy
import pickle

from tpack.utils import concurrency


def test_all_names_are_there():
    assert [name for name in concurrency.__all__ if not hasattr(concurrency, name)] == []
    assert concurrency.StoppableThread.__module__ == "tpack.utils.concurrency"
    assert concurrency.ShareSessionThread.__module__ == "tpack.utils.concurrency"


def test_die_is_the_same_object_after_pickling():
    assert pickle.loads(pickle.dumps(concurrency.DIE)) is concurrency.DIE
    assert copy.deepcopy([concurrency.DIE])[0] is concurrency.DIE
    assert repr(concurrency.DIE) == "DIE"
