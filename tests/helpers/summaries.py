"""Read the summaries that a graph writes."""

from typing import Any

import tensorflow.compat.v1 as tf


def read_summaries(session: Any, key: str = tf.GraphKeys.SUMMARIES) -> dict[str, Any]:
    """Run the summaries of a collection; return the value (a number, or a histogram) of each tag.

    A tag that is written twice is an error.
    """
    found: dict[str, Any] = {}
    for serialized in session.run(tf.get_collection(key)):
        for value in tf.Summary.FromString(serialized).value:
            assert value.tag not in found
            kind = value.WhichOneof("value")
            found[value.tag] = getattr(value, kind)
    return found
