"""What tests of the layers of ``tf.contrib`` share: names in the graph, and values of outputs and variables."""

import numpy as np
import tensorflow.compat.v1 as tf


def names(collection=tf.GraphKeys.GLOBAL_VARIABLES):
    """Return the names of the operations in a collection."""
    return [item.op.name for item in tf.get_collection(collection)]


def shapes():
    """Return {name: shape} of all variables."""
    return {variable.op.name: variable.shape.as_list() for variable in tf.global_variables()}


def values(seed=0):
    """Return {name: value} that depend on the seed only, for all variables."""
    rng = np.random.RandomState(seed)
    return {name: rng.uniform(0.5, 1.5, shape).astype("f") for name, shape in sorted(shapes().items())}


def run(fetches, given=None, feeds=None, then=None):
    """Return what is fetched, with variables set to ``given`` or their initial values, and what is fetched then."""
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for variable in tf.global_variables():
            if given is not None and variable.op.name in given:
                variable.load(given[variable.op.name], session)
        result = session.run(fetches, feeds)
        return result if then is None else (result, session.run(then, feeds))
