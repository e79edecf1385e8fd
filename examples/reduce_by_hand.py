"""Reduce gradients over towers with no trainer, no builder and no tower function: `Reducer` alone, in plain TensorFlow.

    python examples/reduce_by_hand.py
    python examples/reduce_by_hand.py --towers 8 --reducer halving_doubling

It shows code that has its own copies of a model, one for each device, and takes from tpack the one call that makes the
mean of their gradients: K lists of N gradients in, K lists of N out, each on its own device and the same to the last
bit. Reducers can be wrapped: here small gradients are packed before they go round. The towers fit a line to a cloud of
points in 10 dimensions. After 200 steps their weights are equal to the last bit, and differ by less than 0.000001 from
those of one tower that had the whole batch; that takes 5 seconds.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

from tpack import sesscreate
from tpack.reduction import (
    AggregateSmallTensorPackingReducer,
    HalvingDoublingReducer,
    OneDeviceReducer,
    ReduceOp,
    RingReducer,
    RoundRobinReducer,
)

REDUCERS = {
    "ring": RingReducer,
    "halving_doubling": HalvingDoublingReducer,
    "one_device": OneDeviceReducer,
    "round_robin": RoundRobinReducer,
}
BATCH, DIMENSIONS, RATE = 240, 10, 0.1


def loss_and_variables(name, x, y):
    """Make a copy of the model; return its loss and its variables, [D, 1] and [1]."""
    with tf.variable_scope(name):
        slope = tf.get_variable("slope", [DIMENSIONS, 1], initializer=tf.zeros_initializer())
        offset = tf.get_variable("offset", [1], initializer=tf.zeros_initializer())
    return tf.reduce_mean(tf.square(x @ slope + offset - y)), [slope, offset]


def build(x, y, reducer, num_towers):
    """Return the operation that makes a step in all towers, and their variables, K lists of N."""
    variables, gradients = [], []
    parts = zip(tf.split(x, num_towers), tf.split(y, num_towers), strict=True)  # K pairs of [B / K, D] and [B / K, 1]
    for number, part in enumerate(parts):
        with tf.device(f"/device:CPU:{number}"):
            loss, own = loss_and_variables(f"tower{number}", *part)
            variables.append(own)
            gradients.append(tf.gradients(loss, own))
    # This is all: K lists of N gradients become K lists of N means.
    means = reducer.reduce(gradients, ReduceOp.MEAN) if reducer else gradients
    updates = [
        variable.assign_sub(RATE * mean)
        for own, tower in zip(variables, means, strict=True)
        for variable, mean in zip(own, tower, strict=True)
    ]
    return tf.group(*updates), variables


def train(x, y, reducer, num_towers, steps):
    """Return the weights of each tower, K lists of N arrays."""
    with tf.Graph().as_default():
        step, variables = build(tf.constant(x), tf.constant(y), reducer, num_towers)
        with sesscreate.NewSessionCreator().create_session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(steps):
                session.run(step)
            return session.run(variables)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--towers", type=int, default=4, help=f"how many, a divisor of {BATCH} (default: 4)")
    parser.add_argument("--reducer", choices=REDUCERS, default="ring")
    parser.add_argument("--steps", type=int, default=200, help="how many (default: 200)")
    options = parser.parse_args(argv)
    if options.towers < 1 or BATCH % options.towers:
        parser.error(f"a batch of {BATCH} points cannot be divided among {options.towers} towers")

    rng = np.random.default_rng(0)
    x = rng.normal(size=(BATCH, DIMENSIONS)).astype("float32")
    slope = rng.normal(size=(DIMENSIONS, 1))
    y = (x @ slope + 3 + rng.normal(scale=0.1, size=(BATCH, 1))).astype("float32")

    reducer = AggregateSmallTensorPackingReducer(REDUCERS[options.reducer]())
    towers = train(x, y, reducer, options.towers, options.steps)
    (one,) = train(x, y, None, 1, options.steps)
    equal = all(np.array_equal(*pair) for tower in towers for pair in zip(tower, towers[0], strict=True))
    difference = max(abs(a - b).max() for a, b in zip(towers[0], one, strict=True))
    print(f"Found an offset of {towers[0][1][0]:.3f}, which is 3 in truth")
    print("The towers' weights are equal to the last bit" if equal else "The towers' weights differ")
    print(f"Largest difference from one tower: {difference:.8f}")


if __name__ == "__main__":
    main()
