"""What a strategy has to implement, and what it need not."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import MEAN, SUM
from tpack.distribute.current import DEFAULT_STRATEGY
from tpack.distribute.strategy import DistributionStrategy, StrategyPolicy
from tpack.errors import ConfigError


def identity(*values):
    return values


def test_batch_reduce_reduces_one_by_one(graph):
    class Doubling(StrategyPolicy):
        def _reduce(self, aggregation, value, destinations):
            return aggregation, 2 * value, destinations

    assert Doubling()._batch_reduce(MEAN, [(1, "a"), (2, "b")]) == [(MEAN, 2, "a"), (MEAN, 4, "b")]


def test_a_strategy_of_one_tower_says_so():
    class Several(StrategyPolicy):
        num_towers = 2

    assert not Several().is_single_tower
    assert not Several.is_default


def test_a_dataset_is_required_of_a_dataset_function(graph):
    dataset = tf.data.Dataset.range(3)
    assert StrategyPolicy()._call_dataset_fn(lambda: dataset) is dataset
    with pytest.raises(ConfigError, match="must return a tf.data.Dataset .*it returned 3"):
        StrategyPolicy()._call_dataset_fn(lambda: 3)


def test_configure_does_nothing_by_itself(graph):
    assert DEFAULT_STRATEGY.configure(tf.ConfigProto()) is None


def test_what_a_strategy_has_to_implement_is_not_implemented(graph):
    bare = DistributionStrategy()
    calls = [
        lambda: bare.broadcast(1),
        lambda: bare.call_for_each_tower(identity),
        lambda: bare.reduce(SUM, 1),
        lambda: bare.update(1, identity),
        lambda: bare.update_non_slot(1, identity),
        lambda: bare.worker_device_index,
        lambda: bare.distribute_dataset(list),
        lambda: bare.read_var(1),
        lambda: bare.non_slot_devices([]),
        lambda: bare.num_towers,
        lambda: bare.worker_devices,
        lambda: bare.parameter_devices,
        lambda: tf.get_variable("v", []),
    ]
    with bare.scope():
        for call in calls:
            with pytest.raises(NotImplementedError):
                call()
    assert repr(bare) == "<DistributionStrategy>"
