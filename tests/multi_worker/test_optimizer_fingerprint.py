import tensorflow.compat.v1 as tf

from tpack.multi_worker.optimizer_fingerprint import fingerprint_of_optimizer, fingerprint_of_updates
from tpack.tfutils.gradproc import GlobalNormClip, ScaleGradient
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tfutils.optimizer import apply_grad_processors


def made(optimizer):
    """Return the settings of an optimizer that has been used, as a trainer's has."""
    with tf.Graph().as_default():
        optimizer = optimizer()
        weight = tf.get_variable("w", [2])
        optimizer.minimize(tf.reduce_sum(weight))
        return fingerprint_of_optimizer(optimizer)


def test_numbers_are_told_by_class_and_name():
    found = made(lambda: tf.train.AdamOptimizer(0.01, beta2=0.99))
    assert found["AdamOptimizer.lr"] == 0.01
    assert (found["AdamOptimizer.beta1"], found["AdamOptimizer.beta2"]) == (0.9, 0.99)
    assert found == made(lambda: tf.train.AdamOptimizer(0.01, beta2=0.99))
    nesterov = made(lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True))
    assert nesterov["MomentumOptimizer.use_nesterov"] is True


def decayed(rate, steps):
    return tf.train.GradientDescentOptimizer(tf.train.exponential_decay(rate, get_global_step_var(), steps, 0.5))


def test_a_tensor_is_told_by_the_numbers_that_go_into_it():
    found = made(lambda: decayed(0.1, 100))["GradientDescentOptimizer.learning_rate"]
    assert found.startswith("computed from ")
    assert "100" in found
    assert found == made(lambda: decayed(0.1, 100))["GradientDescentOptimizer.learning_rate"]
    assert found != made(lambda: decayed(0.1, 200))["GradientDescentOptimizer.learning_rate"]
    assert found != made(lambda: decayed(0.2, 100))["GradientDescentOptimizer.learning_rate"]


def clipped(norm, factor):
    processors = [GlobalNormClip(norm), ScaleGradient(("w", factor))]
    return apply_grad_processors(tf.train.GradientDescentOptimizer(0.1), processors)


def test_what_is_inside_and_what_processes_gradients_is_told_too():
    found = made(lambda: clipped(2.0, 3.0))
    assert found["GradientProcessorOptimizer.GradientDescentOptimizer.learning_rate"] == 0.1
    differing = {name for name, text in made(lambda: clipped(4.0, 5.0)).items() if found[name] != text}
    assert len(differing) == 2, found


def test_what_a_variable_holds_is_not_told():
    def optimizer():
        return tf.train.GradientDescentOptimizer(tf.get_variable("rate", initializer=0.1, trainable=False))

    assert "GradientDescentOptimizer.learning_rate" not in made(optimizer)


def updates(*optimizers):
    """Return what updates of a dense variable and of rows of a table tell, by one optimizer for each tower."""
    with tf.Graph().as_default() as graph:
        for tower, optimizer in enumerate(optimizers):
            with tf.variable_scope(f"tower{tower}", use_resource=True):
                weight, table = tf.get_variable("w", []), tf.get_variable("t", [3, 2])
                loss = weight * tf.reduce_sum(tf.nn.embedding_lookup(table, tf.constant([2, 2, 0])))
                optimizer().minimize(loss)
        return fingerprint_of_updates(graph)


def test_updates_tell_the_rates_of_optimizers_and_nothing_of_the_model():
    adagrad = updates(lambda: tf.train.AdagradOptimizer(0.25))
    assert adagrad == {"ApplyAdagrad.lr": "computed from 0.25"}
    momentum = updates(lambda: tf.train.MomentumOptimizer(0.5, 0.75))
    assert momentum == {"ApplyMomentum.lr": "computed from 0.5", "ApplyMomentum.momentum": "computed from 0.75"}
    one = updates(lambda: decayed(0.5, 100))
    assert one == updates(lambda: decayed(0.5, 100), lambda: decayed(0.5, 100))
    assert one != updates(lambda: decayed(0.5, 200))
    differing = updates(lambda: tf.train.GradientDescentOptimizer(0.5), lambda: tf.train.GradientDescentOptimizer(0.25))
    assert "computed from 0.25 or computed from 0.5" in differing.values()
