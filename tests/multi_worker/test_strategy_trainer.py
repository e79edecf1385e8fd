"""A strategy's trainer over several workers, against one tower with the whole batch."""

import numpy as np
import pytest

from tests.helpers.equivalence import one_tower
from tests.helpers.role_job import run_roles, values_of
from tpack.distribute.strategies import CollectiveAllReduceStrategy, ParameterServerStrategy
from tpack.errors import WrongTypeError
from tpack.multi_worker.strategy_trainer import MultiWorkerStrategyTrainer


def test_workers_and_towers_equal_one_tower_with_the_whole_batch(tmp_path):
    arguments = {"towers": 2, "size": 2, "optimizers": ["momentum", "adam"]}
    found = values_of(run_roles("train_with_trainer", {"worker": 2}, tmp_path, arguments))
    for name in arguments["optimizers"]:
        chief, other = found["worker0"][name], found["worker1"][name]
        for weight, wanted in one_tower(name, 4).weights[0].items():
            np.testing.assert_allclose(chief[weight], wanted, rtol=1e-9, atol=1e-12, err_msg=f"{name} {weight}")
        assert chief.keys() == other.keys()
        for variable, value in chief.items():
            assert np.array_equal(value, other[variable]), variable


def test_a_process_that_is_alone_trains_as_with_any_strategy(graph):
    strategy = CollectiveAllReduceStrategy()
    trainer = MultiWorkerStrategyTrainer(strategy)
    assert (trainer.is_alone, trainer.strategy.between_graph, trainer.devices) == (True, False, ("/device:CPU:0",))
    with pytest.raises(WrongTypeError, match="got strategy="):
        MultiWorkerStrategyTrainer(ParameterServerStrategy())
