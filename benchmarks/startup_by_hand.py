"""The first steps of a model without tpack, for `startup.py`: the TensorFlow calls that such a graph needs.

python benchmarks/startup_by_hand.py MODEL TOWERS LAUNCHED_AT
"""

import tensorflow.compat.v1 as tf
from startup_phases import BATCH, FIRST_STEP, GRAPH, SECOND_STEP, VARIABLES, main, make_optimizer


def train(model, phases, options):
    with tf.Graph().as_default() as graph:
        train_op, copy_op = build(model, options.towers)
        phases.done(GRAPH)
        phases.built(graph)
        devices = {"CPU": options.towers}
        session = tf.Session(config=tf.ConfigProto(device_count=devices, allow_soft_placement=True))
        session.run(tf.global_variables_initializer())
        session.run(copy_op)
        phases.done(VARIABLES)
        step = session.make_callable(train_op)
        for name in (FIRST_STEP, SECOND_STEP):
            step()
            phases.done(name)
        session.close()


def build(model, towers, batch=BATCH):
    """Return the train op, and the op that copies the first tower's variables to the others."""
    grads, variables, optimizers = [], [], []
    for index in range(towers):
        with tf.device(f"/device:CPU:{index}"), tf.variable_scope(f"tower{index}"):
            cost = model.cost(*model.tensors(batch))
            optimizers.append(make_optimizer())
            variables.append(tf.trainable_variables(f"tower{index}/"))
            grads.append(tf.gradients(cost, variables[-1], colocate_gradients_with_ops=True))
    means = []
    for position, copies in enumerate(zip(*grads, strict=True)):
        with tf.device(f"/device:CPU:{position % towers}"):
            means.append(tf.add_n(copies) / towers)
    train_ops = [op for op in tf.get_collection(tf.GraphKeys.UPDATE_OPS) if op.name.startswith("tower0/")]
    for index in range(towers):
        with tf.device(f"/device:CPU:{index}"):
            train_ops.append(optimizers[index].apply_gradients(zip(means, variables[index], strict=True)))
    pairs = [pair for others in variables[1:] for pair in zip(variables[0], others, strict=True)]
    return tf.group(*train_ops), tf.group(*(tf.assign(copy, main).op for main, copy in pairs))


if __name__ == "__main__":
    main(train)
