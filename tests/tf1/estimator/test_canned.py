"""What ready-made models have in common."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.estimator import canned
from tpack.tf1.estimator.heads.classification import BinaryClassHead, MultiClassHead


def test_the_number_of_classes_chooses_the_head():
    assert isinstance(canned.classification_head(2, None, None, "sum"), BinaryClassHead)
    assert isinstance(canned.classification_head(3, None, None, "sum"), MultiClassHead)
    with pytest.raises(ConfigError, match="n_classes=1"):
        canned.classification_head(1, None, None, "sum")


def test_variables_of_a_scope_are_resources(graph):
    with canned.model_scope("part", tf.min_max_variable_partitioner(max_partitions=1)):
        (variable,) = tf.get_variable("v", [2])
    assert variable.op.type == "VarHandleOp"
    assert variable.op.name == "part/v/part_0"
