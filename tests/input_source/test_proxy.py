"""A proxy is its inner source."""

import numpy as np
import pytest

from tests.helpers.run_input import SIGNATURE, running
from tpack.dataflow import DataFromList
from tpack.errors import ConfigError
from tpack.input_source import QueueInput
from tpack.input_source.proxy import ProxyInput


def source():
    return QueueInput(DataFromList([[np.zeros([1, 2]), k] for k in range(3)], shuffle=False))


def test_everything_is_handed_on(graph):
    inner = source()
    with running(ProxyInput(inner), num_towers=2) as run:
        assert run.labels(2) == [0, 1, 2, 0]
        run.source.reset_state()
        assert run.labels(1) == [0, 1]
        assert run.source.size() == 3
        assert inner.setup_done()


def test_the_inner_source_is_reset_once_before_training(graph):
    inner = source()
    callbacks = ProxyInput(inner).setup(SIGNATURE)
    assert all(one is other for one, other in zip(callbacks, inner.get_callbacks(), strict=True))


def test_something_else_than_a_source_is_an_error():
    with pytest.raises(ConfigError, match="ProxyInput wraps an InputSource, got 3"):
        ProxyInput(3)
