"""Models of the examples and scripts are copied from tower to tower as if they were built, or it is known why not.

All of them are in the trial ``copied_towers``.
"""

import pytest

from tests.helpers.copied_models import MODELS, NOT_COPIED, build_model, reason_or_difference
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder


def replicated(name):
    return lambda how: build_model(MODELS[name], SyncMultiGPUReplicatedBuilder(3, tower_building=how))


@pytest.mark.parametrize("name", ["digits", "dorefa", "siamese, frozen"])
def test_a_model_is_copied_as_it_is_built(name):
    assert reason_or_difference(replicated(name)) == ("", [])


@pytest.mark.parametrize("name", ["keras_in_tower", "steering"])
def test_it_is_known_why_a_model_is_not_copied(name):
    reason, _ = reason_or_difference(replicated(name))
    assert NOT_COPIED[name] in reason
