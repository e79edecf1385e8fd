"""What a protocol says may be asked of an object can be asked of those that are meant by it."""

import ast
from typing import Protocol

import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.source import modules_under
from tpack import types
from tpack.callbacks.monitors.group import Monitors
from tpack.input_source.base import InputSource
from tpack.train.interruption import Interruption
from tpack.train.loop import TrainLoop
from tpack.train.trainers import SimpleTrainer


def members(protocol):
    """Return what a protocol asks for."""
    return {name for name in dir(protocol) if not name.startswith("_")} - set(dir(Protocol))


@pytest.mark.parametrize(
    ("protocol", "make"),
    [
        (types.Counters, TrainLoop),
        (types.Monitors, lambda: Monitors([])),
        (types.Interruption, lambda: Interruption(lambda: None)),
        (types.DataSource, InputSource),
        (types.Trainer, SimpleTrainer),
        (types.Trainer, FakeTrainer),
    ],
)
def test_what_a_protocol_asks_for_is_there(graph, protocol, make):
    thing = make()
    assert len(members(protocol)) > 1
    assert {name for name in members(protocol) if not hasattr(thing, name)} == set()


def test_a_trainer_has_the_counters_too():
    assert members(types.Counters) < members(types.Trainer)


def test_nothing_of_tpack_or_tensorflow_is_imported():
    (module,) = [module for module in modules_under("tpack") if module.name == "tpack.types"]
    names = {node.module for node in ast.walk(module.tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in names if name.startswith(("tpack", "tensorflow"))} == set()
