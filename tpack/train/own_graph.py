"""Trainers are made inside the graph that they train."""

import inspect
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError


class InOwnGraph(type):
    """Metaclass whose classes are made inside a graph, so that a subclass can build in its ``__init__``.

    The graph is the current default one where graph mode is on, and otherwise a new one.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an object inside the graph.

        Raises:
            ConfigError: The default graph is finalized, as it is after a training.
        """
        graph = tf.Graph() if tf.executing_eagerly() else tf.get_default_graph()
        if graph.finalized:
            raise ConfigError(
                f"{cls.__name__} cannot build in the default graph, which is finalized since something was trained or "
                "run in it: give each training a graph of its own, by 'with tf.Graph().as_default():' around it"
            )
        with graph.as_default():
            return super().__call__(*args, **kwargs)

    @property
    def __signature__(cls) -> inspect.Signature:
        """The arguments of the class's ``__init__``, which ``help()`` would not find behind `__call__`."""
        _, *others = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
        return inspect.Signature(others)
