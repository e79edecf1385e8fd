from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.variables.distributed import replace_in_collections
from tpack.distribute.variables.replicated import MirroredVariable


def test_the_variable_stands_where_its_first_component_stood(graph: Any) -> None:
    a, b, c, d = (tf.Variable(1.0, use_resource=True, name=name) for name in "abcd")
    graph.add_to_collection("others", c)
    graph.add_to_collection("others", 3)
    variable = MirroredVariable({"/cpu:0": b, "/cpu:1": c}, tf.VariableAggregation.NONE)
    replace_in_collections(variable)
    for key in (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.TRAINABLE_VARIABLES):
        found = graph.get_collection(key)
        assert len(found) == 3
        assert all(one is other for one, other in zip(found, [a, variable, d], strict=True))
    assert graph.get_collection("others") == [3]
