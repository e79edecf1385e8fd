"""Compare fetches of variables in the run of their updates with the real TensorFlow 1.15.

    python -m tests.trials.tensorflow_1_fetches PYTHON_OF_1_15 --runs 100

Each case is built and run in both that many times, two steps each. Where 1.15 always gives the same values, `tpack.tf1`
has to give them each time. What is computed of a variable raced with its update; there `tpack.tf1` has to give the same
each time.
"""

# The part above `compare` also runs in Python 3.7, without tpack.
import argparse
import collections
import json
import os
import sys
import tempfile

import numpy as np

NOT_EQUAL = {
    "assign_of_another_shape": "a resource variable keeps its shape",
    "assigned_value_plus_variable": "a warning reports that nothing determines the order",
}
COMPUTED = frozenset(
    [
        "metric_accuracy",
        "metric_auc",
        "metric_iou",
        "metric_mean",
        "metric_precision",
        "step_to_int32",
        "unused_rate",
        "weights_gather",
        "weights_l2",
        "weights_rows",
        "weights_slice",
        "weights_times_2",
        "weights_unstack",
        "whole_of_partitions",
    ]
)
"""Fetches that are computed of an updated variable: their reads and the update raced in 1.15."""


def training(tf, optimizer=None):
    """Return cost, weights, global step and train op of a small model."""
    weights = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
    cost = tf.reduce_mean(tf.square(tf.matmul(tf.ones([8, 4]), weights) - 1.0))
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.GradientDescentOptimizer(0.1) if optimizer is None else optimizer
    return cost, weights, step, optimizer.minimize(cost, global_step=step)


def zeros(tf, shape=(), name="w", dtype=None):
    return tf.get_variable(name, list(shape), dtype, tf.zeros_initializer())


def of_step(get):
    """Return a case that fetches something of the global step with cost and train op."""

    def case(tf):
        cost, _, step, train_op = training(tf)
        return {"value": get(tf, step), "cost": cost, "train": train_op}

    return case


def of_weights(get, optimizer=lambda tf: None):
    """Return a case that fetches something of the weights with cost and train op."""

    def case(tf):
        cost, weights, _, train_op = training(tf, optimizer(tf))
        return [cost, {"value": get(tf, weights)}, train_op]

    return case


def updated(update, shape=(), get=lambda tf, w: w):
    """Return a case that fetches something of a variable, and its update."""

    def case(tf):
        variable = zeros(tf, shape)
        return {"value": get(tf, variable), "update": update(tf, variable)}

    return case


def assigned(update, shape=()):
    """Return a case that fetches the value of an update alone."""
    return lambda tf: {"value": update(tf, zeros(tf, shape))}


def two_updates(between):
    """Return a case with two additions and something between them."""

    def case(tf):
        variable = zeros(tf)
        first = tf.assign_add(variable, 1.0)
        with tf.control_dependencies([first]):
            value = between(tf, variable, first)
        with tf.control_dependencies([value]):
            return {"value": value, "update": tf.assign_add(variable, 1.0)}

    return case


def metric(make, take=0):
    """Return a case that fetches the value (0) or update (1) of a metric, together."""

    def case(tf):
        both = make(tf)
        return {"value": both[take], "other": both[1 - take]}

    return case


def local_variables(tf):
    update = mean(tf)[1]
    return {"value": tf.local_variables(), "update": update}


def mean(tf):
    return tf.metrics.mean(tf.random_uniform([5]) * 0 + 2)


def accuracy(tf):
    return tf.metrics.accuracy(tf.constant([1, 0]), tf.constant([1, 1]))


def auc(tf):
    return tf.metrics.auc(tf.constant([1, 0]), tf.constant([0.9, 0.1]))


def precision(tf):
    return tf.metrics.precision(tf.constant([1, 0]), tf.constant([1, 1]))


def mean_iou(tf):
    return tf.metrics.mean_iou(tf.constant([1, 0]), tf.constant([1, 1]), 2)


def read_before(tf):
    variable = zeros(tf)
    read = variable.read_value()
    with tf.control_dependencies([read]):
        return {"value": read, "update": tf.assign_add(variable, 1.0)}


def read_after(tf):
    variable = zeros(tf)
    with tf.control_dependencies([tf.assign_add(variable, 1.0)]):
        return {"value": variable.read_value()}


def average(tf):
    cost, weights, _, train_op = training(tf)
    averages = tf.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies([train_op]):
        update = averages.apply([weights])
    return {"value": averages.average(weights), "cost": cost, "update": update}


def slot(tf):
    cost, _, _, train_op = training(tf, tf.train.AdamOptimizer(0.1))
    moments = [variable for variable in tf.global_variables() if variable.op.name.endswith("/Adam")]
    return {"value": moments, "cost": cost, "train": train_op}


def decayed_rate(tf):
    weights, step = zeros(tf), tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(1.0, step, 1, 0.5)
    train_op = tf.train.GradientDescentOptimizer(rate).minimize(tf.square(weights - 1.0), global_step=step)
    return {"value": [rate, step], "train": train_op}


def unused_rate(tf):
    _, _, step, train_op = training(tf)
    return {"value": tf.train.exponential_decay(1.0, step, 1, 0.5), "train": train_op}


def another_shape(tf):
    variable = tf.Variable(np.zeros([2], np.float32), validate_shape=False)
    return {"value": variable, "update": tf.assign(variable, [1.0, 1.0, 1.0], validate_shape=False)}


def of_another_variable(tf):
    first, second = zeros(tf, [4]), zeros(tf, [4], "v")
    return {"value": [first, second], "update": first.assign(second + 1)}


def typed(first, second):
    def case(tf):
        variable = tf.Variable(first)
        return {"value": variable, "update": tf.assign(variable, second)}

    return case


def counted(tf):
    variable = tf.Variable(0)
    return {"value": variable, "update": variable.count_up_to(9)}


def partitions(tf, whole=False):
    parts = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer(), partitioner=tf.fixed_size_partitioner(2))
    updates = [tf.assign_add(part, tf.ones([2, 1])) for part in parts]
    return {"value": tf.convert_to_tensor(parts) if whole else list(parts), "update": updates}


def in_condition(tf):
    variable = zeros(tf)
    both = tf.cond(
        tf.random_uniform([]) >= 0, lambda: tf.assign_add(variable, 1.0), lambda: tf.assign_add(variable, 2.0)
    )
    return {"value": [variable, both]}


def in_loop(tf):
    variable = zeros(tf)

    def body(index):
        with tf.control_dependencies([tf.assign_add(variable, 1.0)]):
            return index + 1

    return {"value": variable, "loop": tf.while_loop(lambda index: index < 3, body, [0])}


def embedding(tf):
    table = zeros(tf, [4, 2])
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [0, 1]))
    return {"value": table, "train": tf.train.GradientDescentOptimizer(0.1).minimize(loss)}


def moving_mean(tf):
    variable = zeros(tf, [3])
    update = tf.assign_sub(variable, (variable - tf.reduce_mean(tf.random_uniform([8, 3]) * 0 + 2, 0)) * 0.5)
    return {"value": variable, "update": update}


def all_variables(tf):
    cost, _, _, train_op = training(tf, tf.train.AdamOptimizer(0.1))
    return {"value": [tf.trainable_variables(), tf.global_variables()], "cost": cost, "train": train_op}


def gradient_and_weights(tf):
    cost, weights, _, train_op = training(tf)
    return {"value": [tf.gradients(cost, weights)[0], weights, cost], "train": train_op}


def step_by_name(tf):
    return tf.get_default_graph().get_tensor_by_name("global_step:0")


def assign_noise(tf, variable):
    return variable.assign(tf.random_uniform(variable.shape) * 0 + 3)


FETCHES = {
    "step": of_step(lambda tf, step: step),
    "step_read_value": of_step(lambda tf, step: step.read_value()),
    "step_value": of_step(lambda tf, step: step.value()),
    "step_name": of_step(lambda tf, step: "global_step:0"),
    "step_tensor_of_name": of_step(lambda tf, step: step_by_name(tf)),
    "step_get_global_step": of_step(lambda tf, step: tf.train.get_global_step()),
    "step_identity": of_step(lambda tf, step: tf.identity(step)),
    "step_tensor": of_step(lambda tf, step: tf.convert_to_tensor(step)),
    "step_cast_to_same": of_step(lambda tf, step: tf.cast(step, tf.int64)),
    "step_to_int32": of_step(lambda tf, step: tf.to_int32(step)),
    "weights": of_weights(lambda tf, w: w),
    "weights_adam": of_weights(lambda tf, w: w, lambda tf: tf.train.AdamOptimizer(0.1)),
    "weights_momentum": of_weights(lambda tf, w: w, lambda tf: tf.train.MomentumOptimizer(0.1, 0.9)),
    "weights_rmsprop": of_weights(lambda tf, w: w, lambda tf: tf.train.RMSPropOptimizer(0.1)),
    "weights_name": of_weights(lambda tf, w: "w:0"),
    "weights_read_value": of_weights(lambda tf, w: w.read_value()),
    "weights_reshape": of_weights(lambda tf, w: tf.reshape(w, [-1])),
    "weights_squeeze": of_weights(lambda tf, w: tf.squeeze(w)),
    "weights_expand_dims": of_weights(lambda tf, w: tf.expand_dims(w, 0)),
    "weights_stop_gradient": of_weights(lambda tf, w: tf.stop_gradient(w)),
    "weights_slice": of_weights(lambda tf, w: w[0]),
    "weights_rows": of_weights(lambda tf, w: w[1:3]),
    "weights_times_2": of_weights(lambda tf, w: w * 2),
    "weights_l2": of_weights(lambda tf, w: tf.nn.l2_loss(w)),
    "weights_unstack": of_weights(lambda tf, w: tf.unstack(w)),
    "weights_gather": of_weights(lambda tf, w: tf.gather(w, [0])),
    "all_variables": all_variables,
    "gradient_and_weights": gradient_and_weights,
    "slot": slot,
    "average": average,
    "decayed_rate": decayed_rate,
    "unused_rate": unused_rate,
    "assign": updated(lambda tf, w: w.assign(5.0)),
    "assign_value": assigned(lambda tf, w: w.assign(5.0)),
    "assign_add": updated(lambda tf, w: w.assign_add(1.0)),
    "assign_add_value": assigned(lambda tf, w: w.assign_add(1.0)),
    "assign_add_function": updated(lambda tf, w: tf.assign_add(w, 1.0)),
    "assign_sub": updated(lambda tf, w: tf.assign_sub(w, 1.0)),
    "assign_noise": updated(assign_noise, [4]),
    "assign_large": updated(assign_noise, [300, 300]),
    "assign_another_variable": of_another_variable,
    "assign_of_another_shape": another_shape,
    "assign_int": typed(1, 2),
    "assign_bool": typed(False, True),
    "assigned_value_times_2": assigned(lambda tf, w: tf.assign_add(w, 1.0) * 2),
    "assigned_value_plus_variable": assigned(lambda tf, w: tf.assign_add(w, 1.0) + w),
    "two_updates_first": two_updates(lambda tf, w, first: first),
    "two_updates_read_between": two_updates(lambda tf, w, first: w.read_value()),
    "two_updates_identity_between": two_updates(lambda tf, w, first: tf.identity(first)),
    "two_updates_computed_between": two_updates(lambda tf, w, first: first * 2),
    "read_before": read_before,
    "read_after": read_after,
    "scatter_update": updated(lambda tf, w: tf.scatter_update(w, [0], [3.0]), [4]),
    "scatter_add_value": assigned(lambda tf, w: tf.scatter_add(w, [0], [3.0]), [4]),
    "scatter_nd_update": updated(lambda tf, w: tf.scatter_nd_update(w, [[0]], [3.0]), [4]),
    "slice_assign": updated(lambda tf, w: w[0:1].assign([3.0]), [4]),
    "count_up_to": counted,
    "partitions": partitions,
    "whole_of_partitions": lambda tf: partitions(tf, whole=True),
    "in_condition": in_condition,
    "in_loop": in_loop,
    "embedding": embedding,
    "moving_mean": moving_mean,
    "metric_mean": metric(mean),
    "metric_mean_update": metric(mean, 1),
    "metric_accuracy": metric(accuracy),
    "metric_accuracy_update": metric(accuracy, 1),
    "metric_auc": metric(auc),
    "metric_auc_update": metric(auc, 1),
    "metric_precision": metric(precision),
    "metric_iou": metric(mean_iou),
    "metric_iou_update": metric(mean_iou, 1),
    "metric_variables": local_variables,
}


def value_of(results):
    """Return what a case calls its value."""
    if isinstance(results, list):
        return next(part["value"] for part in results if isinstance(part, dict) and "value" in part)
    return results["value"]


def plain(case):
    def run(tf):
        fetches = case(tf)
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            return [value_of(session.run(fetches)) for _ in range(2)]

    return run


def with_session(make):
    """Return a case of three steps in a session."""

    def run(tf):
        cost, weights, step, train_op = training(tf)
        with make(tf) as session:
            return [session.run([cost, step, weights, train_op])[1:3] for _ in range(3)]

    return run


def initialized(tf, session):
    session.run(tf.global_variables_initializer())
    return session


def managed(tf):
    return tf.train.SessionManager().prepare_session("", init_op=tf.global_variables_initializer())


def supervisor(tf):
    return tf.train.Supervisor(logdir=None, summary_op=None, saver=None)


def interactive(tf):
    cost, _, step, train_op = training(tf)
    session = initialized(tf, tf.InteractiveSession())
    values = [session.run([cost, step, train_op])[1], step.eval()]
    session.close()
    return values


def watcher(tf, fetches, seen):
    class Hook(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs(fetches())

        def after_run(self, run_context, run_values):
            seen.append(run_values.results)

    return Hook()


def hooks(tf):
    _, weights, step, train_op = training(tf)
    seen = []
    logging = tf.train.LoggingTensorHook({"step": step}, 1, formatter=lambda d: seen.append(d["step"]) or "")
    hook = watcher(tf, lambda: {"step": step, "weights": weights}, seen)
    with tf.train.MonitoredTrainingSession(hooks=[hook, logging]) as session:
        for _ in range(2):
            session.run(train_op)
    return [seen[0]["step"], seen[0]["weights"], seen[1:2], seen[2]["step"]]


def stop_at_step(tf):
    _, _, step, train_op = training(tf)
    steps = []
    with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(last_step=3)]) as session:
        while not session.should_stop():
            steps.append(session.run([train_op, step])[1])
    return steps


def loop_until(tf):
    _, _, step, train_op = training(tf)
    steps = [0]
    with initialized(tf, tf.Session()) as session:
        while steps[-1] < 5:
            steps.append(session.run([train_op, step])[1])
    return steps


def step_function(tf):
    _, _, step, train_op = training(tf)
    with tf.train.MonitoredTrainingSession() as session:
        raw = session.run_step_fn(lambda step_context: step_context.session.run([train_op, step]))[1]
        return [raw, session.run_step_fn(lambda step_context: step_context.run_with_hooks([train_op, step]))[1]]


def made_callable(tf):
    cost, _, step, train_op = training(tf)
    with initialized(tf, tf.Session()) as session:
        call = session.make_callable([cost, step, train_op])
        return [call()[1] for _ in range(2)]


def partial(tf, first_part, second_part):
    first, second = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    variable, other = zeros(tf), zeros(tf, name="v")
    fetches = {"early": tf.assign_add(variable, first), "late": tf.assign_add(other, second)}
    fetches.update(variable=variable, other=other)
    parts = [[fetches[name] for name in part] for part in (first_part, second_part)]
    with initialized(tf, tf.Session()) as session:
        handle = session.partial_run_setup(sum(parts, []), [first, second])
        values = [np.copy(value) for value in session.partial_run(handle, parts[0], {first: 3.0})]
        return [values, session.partial_run(handle, parts[1], {second: 2.0})]


def estimator(tf):
    def model_fn(features, labels, mode):
        weights, step = zeros(tf), tf.train.get_global_step()
        loss = tf.square(weights - tf.reduce_mean(features["x"]))
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    seen = []
    with tempfile.TemporaryDirectory() as directory:
        model = tf.estimator.Estimator(model_fn, directory)
        hook = watcher(tf, lambda: [tf.train.get_global_step(), tf.trainable_variables()], seen)
        model.train(lambda: tf.data.Dataset.from_tensors({"x": np.ones([4], np.float32)}).repeat(), [hook], 3)
    return seen


SLOW = ("estimator",)
CASES = {
    **{name: plain(case) for name, case in FETCHES.items()},
    "session": with_session(lambda tf: initialized(tf, tf.Session())),
    "interactive_session": interactive,
    "monitored_training_session": with_session(lambda tf: tf.train.MonitoredTrainingSession()),
    "monitored_session": with_session(lambda tf: tf.train.MonitoredSession()),
    "monitored_session_of_creator": with_session(lambda tf: tf.train.MonitoredSession(tf.train.ChiefSessionCreator())),
    "singular_monitored_session": with_session(lambda tf: tf.train.SingularMonitoredSession()),
    "session_manager": with_session(managed),
    "supervisor": with_session(lambda tf: supervisor(tf).managed_session()),
    "supervisor_prepared": with_session(lambda tf: supervisor(tf).prepare_or_wait_for_session()),
    "hooks": hooks,
    "stop_at_step_hook": stop_at_step,
    "loop_until_step": loop_until,
    "step_function": step_function,
    "callable": made_callable,
    "partial_run_same_part": lambda tf: partial(tf, ["early", "variable"], ["late", "other"]),
    "partial_run_later_part": lambda tf: partial(tf, ["early"], ["late", "other", "variable"]),
    "estimator": estimator,
}


def rounded(value):
    """Return a value as text, with numbers of five digits."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    return np.round(np.ravel(np.asarray(value, np.float64))[:4], 5).tolist()


def results_of(tf, runs, names):
    """Return {case: {values as text: how often}}."""
    found = {}
    for name in names:
        counts = collections.Counter()
        for _ in range(max(1, runs // 10) if name in SLOW else runs):
            tf.reset_default_graph()
            try:
                counts[str(rounded(CASES[name](tf)))] += 1
            except Exception as error:
                counts["{}: {}".format(type(error).__name__, str(error).split("\n")[0][:80])] += 1  # noqa: UP032
        found[name] = dict(counts)
    return found


def original(path, runs, names):
    """Run the cases in TensorFlow 1.15, and write the results."""
    import tensorflow as tf  # noqa: PLC0415 (another Python's)

    tf.logging.set_verbosity(tf.logging.ERROR)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(results_of(tf, runs, names), file)


def compare(ours, theirs):
    """Print the cases that differ; return how many were equal, computed, listed and different."""
    counts = collections.Counter()
    for name, expected in theirs.items():
        got = ours[name]
        if name in COMPUTED:
            kind = "computed, one value each time" if len(got) == 1 else "different"
        elif len(expected) == 1 and got.keys() == expected.keys():
            kind = "equal"
        else:
            kind = "listed" if name in NOT_EQUAL else "different"
        counts[kind] += 1
        if kind != "equal":
            often = sorted(expected.items(), key=lambda item: -item[1])[:3]
            print(f"{name}: {kind}\n  1.15: {often} of {len(expected)}\n  tpack: {got}")
    return counts


def main():
    """Run both, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python", help="the interpreter of TensorFlow 1.15")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--write", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.write:
        original(args.write, args.runs, args.cases)
        return
    import tpack.tf1 as tf  # noqa: PLC0415 (not in the other Python)
    from tests.helpers import tensorflow_1  # noqa: PLC0415 (not in the other Python)

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "results.json")
        options = ["--runs", str(args.runs), "--write", path, "--cases", *args.cases]
        tensorflow_1.run([args.python, os.path.abspath(__file__), args.python, *options])
        with open(path, encoding="utf-8") as file:
            theirs = json.load(file)
    counts = compare(results_of(tf, args.runs, args.cases), theirs)
    print(
        ", ".join(f"{count} {kind}" for kind, count in counts.items()), f"of {len(theirs)} cases, {args.runs} runs each"
    )
    sys.exit(bool(counts["different"]))


if __name__ == "__main__":
    main()
