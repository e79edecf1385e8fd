"""Process sets before they are registered; over workers they are tried in ``test_runtime``."""

import pytest

import tpack.horovod as hvd
from tpack.errors import ConfigError


def test_a_set_has_each_rank_once() -> None:
    assert hvd.ProcessSet([2, 0]).ranks == [0, 2]
    for ranks in ([], [1, 1], [-1]):
        with pytest.raises(ConfigError, match="ranks"):
            hvd.ProcessSet(ranks)


def test_before_it_is_registered_nothing_is_known_of_it() -> None:
    some = hvd.ProcessSet([0, 1])
    assert (some.size(), some.included(), some.rank(), some.process_set_id) == (None, None, None, None)
    assert repr(some) == "ProcessSet([0, 1])"


def test_alone_the_set_of_all_has_one_rank() -> None:
    hvd.init()
    try:
        everyone = hvd.global_process_set
        assert (everyone.size(), everyone.included(), everyone.rank(), everyone.ranks) == (1, True, 0, [0])
        with pytest.raises(ConfigError, match="expected a set that is not registered already"):
            hvd.add_process_set([0])
        with pytest.raises(ConfigError, match="is not registered: use add_process_set"):
            hvd.broadcast_object(1, process_set=hvd.ProcessSet([0]))
        assert hvd.remove_process_set(everyone) is False
    finally:
        hvd.shutdown()
