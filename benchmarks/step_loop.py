"""How much tpack's step loop adds to the session: softmax regression on a constant batch of 64 x 784.

    python benchmarks/step_loop.py --steps 20000 --out step_loop.json

tpack trains with all of its default callbacks and monitors and a moving average of the cost. An epoch is a round; after
each one the same session, graph and values make as many steps in other ways:

    (a) a bare callable of exactly what the loop fetches: train op, global step, moving average
    (b) a bare callable of the train op alone
    (c) a `MonitoredSession` with a hook for each of the other two fetches
    (d) Keras 3 `fit` of the same model on the same batch, without its progress bar

The time of a step is that of the whole loop between the first and the last callback of an epoch, divided by its steps.
It is measured for each executor: with "pool" and "caller" the bare callables run on the same one, and with "auto", the
default, they are in the pool, as a callable is that nobody tunes.

After one step a call, as ever, tpack's loop makes several, which is a training of its own for each number of them; a
bare callable still makes one. And once it trains without the check for NaN, which is on by default.
"""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import tensorflow
import tensorflow.compat.v1 as tf
from timing import Samples, argument_parser, print_table, time_calls, write_json

from tpack import (
    DEFAULT_CALLBACKS,
    Callback,
    ModelDesc,
    SimpleTrainer,
    TensorInput,
    TrainConfig,
    launch_train_with_config,
    logger,
)
from tpack.compat.runtime import make_callable
from tpack.tfutils.sesscreate import ReuseSessionCreator
from tpack.tfutils.summary import add_moving_summary

BATCH, FEATURES, CLASSES = 64, 784, 10
LEARNING_RATE = 0.01
EXECUTORS = ("pool", "caller", "auto")
STEPS_PER_CALL = (1, 10, 100)
KERAS_SHARE = 5
"""Keras makes one step for so many of the others: it is much slower."""

WARMUP_ROUNDS = 1
"""Rounds that do not count: callables are compiled in them, and the executor is chosen."""

LOOP, SAME_FETCHES, TRAIN_OP, MONITORED, FIT = (
    "tpack's loop",
    "(a) bare callable of the same fetches",
    "(b) bare callable of the train op",
    "(c) MonitoredSession with hooks",
    "(d) Keras fit",
)
WAYS = (LOOP, SAME_FETCHES, TRAIN_OP, MONITORED, FIT)
EPOCH_END = "end of an epoch: summaries, events, stats.json"


def make_batch():
    rng = np.random.default_rng(0)
    return rng.standard_normal((BATCH, FEATURES), np.float32), rng.integers(0, CLASSES, BATCH, np.int32)


class Softmax(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([BATCH, FEATURES], tf.float32, "image"), tf.TensorSpec([BATCH], tf.int32, "label")]

    def build_graph(self, image, label):
        weights = tf.get_variable("W", [FEATURES, CLASSES], initializer=tf.zeros_initializer())
        bias = tf.get_variable("b", [CLASSES], initializer=tf.zeros_initializer())
        logits = tf.matmul(image, weights) + bias
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        cost = tf.reduce_mean(losses, name="cost")
        add_moving_summary(cost)
        return cost

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(LEARNING_RATE)


class FetchHook(tf.train.SessionRunHook):
    """Runs an operation with every step, as a hook does."""

    def __init__(self, operation):
        self._operation = operation

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._operation)


class KerasFit:
    """The same model, trained with Keras, on a thread of its own: the main one is in tpack's graph and session."""

    def __init__(self):
        self._thread = ThreadPoolExecutor(max_workers=1)
        zeros = keras.initializers.Zeros()
        layers = [keras.Input((FEATURES,), BATCH), keras.layers.Dense(CLASSES, kernel_initializer=zeros)]
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._model = keras.Sequential(layers)
        self._model.compile(keras.optimizers.SGD(LEARNING_RATE), loss)
        self._data = tensorflow.data.Dataset.from_tensors(make_batch()).cache().repeat()

    def time_step(self, steps):
        """Return the seconds of a step, without what ``fit`` does before the first one."""
        times = []
        clock = keras.callbacks.LambdaCallback(
            on_epoch_begin=lambda epoch, logs: times.append(time.perf_counter()),
            on_epoch_end=lambda epoch, logs: times.append(time.perf_counter()),
        )
        self._thread.submit(self._model.fit, self._data, steps_per_epoch=steps, verbose=0, callbacks=[clock]).result()
        return (times[1] - times[0]) / steps


class Clock(Callback):
    """Notes when an epoch's steps begin, if it is the last of the callbacks."""

    start = 0.0

    def _before_epoch(self):
        self.start = time.perf_counter()


class Rounds(Callback):
    """Times each epoch of the loop, and after it the same number of steps made in the other ways."""

    reads_statistics = True

    def __init__(self, clock, fit, *, in_caller_thread):
        self._clock = clock
        self.steps = Samples()
        self.epoch_ends = Samples()
        self._fit = fit
        self._in_caller_thread = in_caller_thread
        self._other_ways_secs = 0.0

    def _before_train(self):
        train_op = self.trainer.train_op
        others = [
            # What counts the step: the operation that waits for the train op.
            next(operation for operation in self.graph.get_operations() if train_op in operation.control_inputs),
            self.graph.get_operation_by_name("callbacks/MovingAverageSummary/maintain_moving_average_summary"),
        ]
        session_creator = ReuseSessionCreator(self.trainer.sess)
        monitored = tf.train.MonitoredSession(session_creator, [FetchHook(operation) for operation in others])
        self._ways = {
            MONITORED: lambda: monitored.run(train_op),
            TRAIN_OP: self._bare([train_op]),
            SAME_FETCHES: self._bare([train_op, *others]),
        }

    def _bare(self, targets):
        return make_callable(self.trainer.sess, targets=targets, in_caller_thread=self._in_caller_thread)

    def _before_epoch(self):
        if self.epoch_num > WARMUP_ROUNDS + 1:
            self.epoch_ends.add(EPOCH_END, time.perf_counter() - self._end - self._other_ways_secs)

    def _after_epoch(self):
        self._end = time.perf_counter()

    def _trigger_epoch(self):
        start = time.perf_counter()
        steps = self.trainer.steps_per_epoch
        times = {LOOP: (self._end - self._clock.start) / steps}
        if self._fit is not None:
            times[FIT] = self._fit.time_step(max(1, steps // KERAS_SHARE))
        for way, function in self._ways.items():
            times[way] = time_calls(function, steps)
        if self.epoch_num > WARMUP_ROUNDS:
            for way, seconds in times.items():
                self.steps.add(way, seconds)
        self._other_ways_secs = time.perf_counter() - start


def measure(executor, fit, *, rounds, steps_per_round, **options):
    """Train with one executor and other options of a `TrainConfig`, and return the `Rounds`."""
    clock = Clock()
    callback = Rounds(clock, fit, in_caller_thread=executor == "caller")
    image, label = make_batch()
    config = TrainConfig(
        model=Softmax(),
        # Zeros would not do: TensorFlow knows what a product with a constant zero is, and leaves it out.
        data=TensorInput(lambda: [tf.constant(image), tf.constant(label)]),
        callbacks=[callback],
        extra_callbacks=[*DEFAULT_CALLBACKS(), clock],
        steps_per_epoch=steps_per_round,
        max_epoch=rounds + WARMUP_ROUNDS,
        **options,
    )
    trainer = SimpleTrainer()
    trainer.executor = executor
    launch_train_with_config(config, trainer)
    return callback


def report(title, callback):
    """Print the table of one training and return its figures for the JSON file."""
    steps, ways = callback.steps, [way for way in WAYS if way in callback.steps.seconds]
    ratios = {way: steps.ratio(LOOP, way) for way in ways}
    rows = [(way, steps.median(way) * 1e6, ratios[way]) for way in ways]
    print_table(title, ("", "us a step", "tpack's loop over it"), rows)
    print(f"{EPOCH_END}: {callback.epoch_ends.median(EPOCH_END) * 1e3:.1f} ms")
    return {**steps.figures(), **callback.epoch_ends.figures(), "ratios": ratios}


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=20000, help="steps of tpack's loop (default: 20000)")
    parser.add_argument("--rounds", type=int, default=20, help="into how many rounds they are divided (default: 20)")
    parser.add_argument("--executors", nargs="+", choices=EXECUTORS, default=EXECUTORS)
    parser.add_argument("--steps-per-call", nargs="+", type=int, default=STEPS_PER_CALL)
    options = parser.parse_args()
    if not 2 <= options.rounds <= options.steps:
        parser.error(
            f"{options.steps} steps cannot be divided into {options.rounds} rounds of at least one, two or more"
        )

    fit = KerasFit()
    figures, numbers = {}, options.steps_per_call
    rounds = {"rounds": options.rounds, "steps_per_round": options.steps // options.rounds}
    with tempfile.TemporaryDirectory() as directory:
        trainings = [
            *((executor, {"steps_per_call": number}) for executor in options.executors for number in numbers),
            *((executor, {"check_cost": False}) for executor in options.executors),
        ]
        for executor, arguments in trainings:
            title = f"executor {executor}, " + ", ".join(f"{name}={value}" for name, value in arguments.items())
            logger.set_logger_dir(f"{directory}/{title}")
            one_by_one = arguments == {"steps_per_call": numbers[0]}
            callback = measure(executor, fit if one_by_one else None, **rounds, **arguments)
            figures[title] = report(title, callback)
        logger.close_logger_dir()
    write_json(options.out, {"steps": options.steps, "rounds": options.rounds, "trainings": figures})


if __name__ == "__main__":
    main()
