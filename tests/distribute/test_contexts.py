"""The checks of where a method may be called, and what they say; and which device is updated."""

import gc
import threading
import weakref

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import in_scope, mirrored
from tpack.distribute.contexts import (
    UpdateContext,
    get_tower_context,
    get_update_device,
    require_cross_tower_context,
    require_distribution_strategy_scope,
    require_tower_context,
    strategy_of,
    tower_context_of,
)
from tpack.distribute.default_strategy import DEFAULT_STRATEGY, DEFAULT_TOWER_CONTEXT
from tpack.errors import StrategyError
from tpack.tower.context import Frame, TrainTowerContext

NOT_INSIDE = r'need to be inside "with distribution_strategy.scope\(\)" for <MirroredStrategy'
MIXING = "mixing different DistributionStrategy objects: .* is not "


def test_a_frame_tells_its_strategy_and_tower_context(graph):
    tower = TrainTowerContext("")
    outside, across, default = Frame(), Frame(strategy="s"), Frame(tower_context=DEFAULT_TOWER_CONTEXT)
    assert (strategy_of(outside), tower_context_of(outside)) == (None, None)
    assert (strategy_of(across), tower_context_of(across)) == ("s", None)
    assert (strategy_of(default), tower_context_of(default)) == (DEFAULT_STRATEGY, DEFAULT_TOWER_CONTEXT)
    assert (strategy_of(Frame(tower)), tower_context_of(Frame(tower))) == (None, None)
    with tower:
        context = get_tower_context()
    assert (strategy_of(Frame(tower)), tower_context_of(Frame(tower))) == (context.distribution_strategy, context)


def test_a_tower_goes_with_what_strategies_see_of_it():
    with tf.Graph().as_default(), TrainTowerContext("") as tower:
        get_tower_context()
        reference = weakref.ref(tower)
    del tower
    gc.collect()
    assert reference() is None


def test_outside_of_a_scope_its_strategy_may_do_nothing(graph):
    strategy = mirrored()
    for require in (require_cross_tower_context, require_distribution_strategy_scope):
        with pytest.raises(StrategyError, match=NOT_INSIDE):
            require(strategy)
        with DEFAULT_STRATEGY.scope(), pytest.raises(StrategyError, match=NOT_INSIDE):
            require(strategy)


def test_inside_of_a_scope_another_strategy_may_do_nothing(graph):
    with in_scope():
        for require in (require_cross_tower_context, require_distribution_strategy_scope):
            for other in (mirrored(3), DEFAULT_STRATEGY):
                with pytest.raises(StrategyError, match=MIXING):
                    require(other)


def test_in_a_trainer_s_tower_a_strategy_may_do_nothing(graph):
    with TrainTowerContext("a_tower"):
        for require in (require_cross_tower_context, require_distribution_strategy_scope):
            with pytest.raises(StrategyError, match=MIXING):
                require(mirrored())
        with pytest.raises(StrategyError, match="training tower 'a_tower' .* is not <DefaultStrategy>"):
            require_tower_context(DEFAULT_TOWER_CONTEXT)


def test_a_tower_is_in_the_scope_and_not_across(graph):
    def tower():
        strategy = get_tower_context().distribution_strategy
        require_distribution_strategy_scope(strategy)
        with pytest.raises(StrategyError, match=r"requires being in cross-tower context.*merge_call\(\)"):
            require_cross_tower_context(strategy)

    with in_scope() as strategy:
        require_cross_tower_context(strategy)
        require_distribution_strategy_scope(strategy)
        strategy.call_for_each_tower(tower)


def test_the_default_tower_is_in_the_default_scope_and_not_across(graph):
    require_distribution_strategy_scope(DEFAULT_STRATEGY)
    require_tower_context(DEFAULT_TOWER_CONTEXT)
    with pytest.raises(StrategyError, match="requires being in cross-tower context"):
        require_cross_tower_context(DEFAULT_STRATEGY)
    with DEFAULT_STRATEGY.scope():
        require_cross_tower_context(DEFAULT_STRATEGY)
        with pytest.raises(StrategyError, match=r"need to be inside `call_for_each_tower\(\)`"):
            require_tower_context(DEFAULT_TOWER_CONTEXT)


def test_a_tower_context_is_required_to_be_the_current_one(graph):
    contexts = []

    def tower():
        contexts.append(get_tower_context())
        require_tower_context(contexts[-1])
        with pytest.raises(
            StrategyError, match="mismatching DistributionStrategy objects: <Mirrored.* is not <Default"
        ):
            require_tower_context(DEFAULT_TOWER_CONTEXT)
        if len(contexts) == 2:
            with pytest.raises(StrategyError, match="mismatching tower context: tower 1 of .* is not tower 0 of"):
                require_tower_context(contexts[0])

    with in_scope() as strategy:
        strategy.call_for_each_tower(tower)
        with pytest.raises(StrategyError, match=r"need to be inside `call_for_each_tower\(\)`"):
            require_tower_context(contexts[0])
    with pytest.raises(StrategyError, match="mismatching DistributionStrategy objects: .*default.* is not <Mirrored"):
        require_tower_context(contexts[0])
    assert len(contexts) == 2


def test_outside_of_updates_there_is_no_device():
    assert get_update_device() is None


def test_blocks_can_be_nested_and_end_with_an_error():
    outer = UpdateContext("a")
    with outer, UpdateContext("b"):
        assert get_update_device() == "b"
        with outer:
            assert get_update_device() == "a"
        assert get_update_device() == "b"
    with pytest.raises(KeyError), UpdateContext("a"):
        assert get_update_device() == "a"
        raise KeyError
    assert get_update_device() is None


def test_another_thread_updates_nothing():
    seen = []
    with UpdateContext("a"):
        thread = threading.Thread(target=lambda: seen.append(get_update_device()))
        thread.start()
        thread.join()
    assert seen == [None]
