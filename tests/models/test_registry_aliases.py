"""Older names of arguments."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.models.registry import argument_aliases, layer_register


def test_layer_takes_an_argument_by_both_names(graph: Any) -> None:
    @layer_register(use_scope=None)
    @argument_aliases(factor="scale")
    def AliasesScale(x: Any, scale: float = 1.0) -> Any:  # noqa: N802
        return x * scale

    with tf.Session() as session:
        assert session.run([AliasesScale(tf.ones([]), factor=2.0), AliasesScale(tf.ones([]), scale=3.0)]) == [2, 3]
