"""Values that are assigned to variables of a session, all or none."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import make_variables
from tpack.errors import CheckpointError, ConfigError
from tpack.tfutils.varmanip import SessionUpdate

START = {"conv0/W": np.zeros((2, 3), "float32"), "count": np.int32(0)}


def started(session: Any, **options: Any) -> tuple[SessionUpdate, dict[str, Any]]:
    variables = make_variables(START)
    session.run(tf.global_variables_initializer())
    return SessionUpdate(session, list(variables.values()), **options), variables


def test_values_are_assigned_and_nothing_is_added_to_the_graph(session8: Any) -> None:
    update, variables = started(session8)
    session8.graph.finalize()
    for value in (1.0, 2.0):
        update.update({"conv0/W:0": np.full((2, 3), value), "count": 7})
        np.testing.assert_array_equal(session8.run(variables["conv0/W"]), np.full((2, 3), value))
    assert session8.run(variables["count"]) == 7


def test_unknown_names_list_near_ones_and_assign_nothing(session8: Any) -> None:
    update, variables = started(session8)
    with pytest.raises(ConfigError, match="no variable 'conv1/W' to update; near names: conv0/W"):
        update.update({"count": 3, "conv1/W": 0})
    assert session8.run(variables["count"]) == 0


def test_every_mismatch_is_in_one_table(session8: Any) -> None:
    update, variables = started(session8)
    with pytest.raises(CheckpointError, match=r"2 value\(s\) in the update do not fit(.|\n)*conv0/W(.|\n)*count"):
        update.update({"conv0/W": np.zeros((3, 3)), "count": np.zeros(2, "int32")})
    relaxed = SessionUpdate(session8, list(variables.values()), ignore_mismatch=True)
    relaxed.update({"conv0/W": np.ones((3, 2)), "count": np.zeros(2, "int32")})
    np.testing.assert_array_equal(session8.run(variables["conv0/W"]), np.ones((2, 3)))
