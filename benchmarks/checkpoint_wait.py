"""How long training waits for a checkpoint of ResNet-50: written at once, and while training goes on.

    python benchmarks/checkpoint_wait.py --rounds 8 --out checkpoint_wait.json

The variables are those of ResNet-50 with a momentum for each, 204 MB; a step changes all of them and does little else,
as it is for a device beside which the processor is idle. A round saves one checkpoint in each way, to the same disk:

    (a) `ModelSaver()`: until the files are complete
    (b) `ModelSaver(asynchronous=True)`: until the values are copied
    (c) the copy alone, by numpy, of as many bytes

Each is followed by steps until the files of (b) are complete; the table says how long such a step takes, beside one
with nothing to write.
"""

import tempfile
import time

import numpy as np
import resnet50
import tensorflow.compat.v1 as tf
from timing import Samples, argument_parser, print_table, time_calls, write_json

from tpack import Callback, ModelSaver, logger
from tpack.train.trainer import Trainer

SYNCHRONOUS, ASYNCHRONOUS, COPY = "(a) written at once", "(b) while training goes on", "(c) the copy alone"
STEP, STEP_BESIDE = "a step", "a step while files are written"
ROUNDS_BEFORE = 2


class Variables(Trainer):
    """Changes the variables of ResNet-50 and their momentum at each step."""

    def __init__(self):
        super().__init__()
        images = tf.zeros([1, 224, 224, 3])
        resnet50.cost(images, tf.zeros([1], tf.int32))
        variables = tf.trainable_variables()
        momentum = [tf.get_variable(f"{v.op.name}/Momentum", v.shape, trainable=False) for v in variables]
        self.train_op = tf.group(*(tf.assign_add(v, tf.ones_like(v)).op for v in [*variables, *momentum]))


class Rounds(Callback):
    """Measures after training has begun, in place of an epoch.

    Args:
        savers: the callbacks, by what they are called.
        rounds: how many.
    """

    def __init__(self, savers, rounds):
        self.savers, self.rounds, self.samples, self.bytes = savers, rounds, Samples(), 0

    def _before_train(self):
        variables = tf.global_variables()
        arrays = self.trainer.sess.run(variables)
        self.bytes = sum(array.nbytes for array in arrays)
        into = [np.empty_like(array) for array in arrays]
        for index in range(-ROUNDS_BEFORE, self.rounds):
            samples = Samples() if index < 0 else self.samples
            samples.add(STEP, time_calls(self._step, 5))
            samples.add(COPY, time_calls(lambda: [np.copyto(a, b) for a, b in zip(into, arrays, strict=True)], 1))
            samples.add(SYNCHRONOUS, time_calls(self.savers[SYNCHRONOUS].trigger, 1))
            self._step()
            samples.add(ASYNCHRONOUS, time_calls(self.savers[ASYNCHRONOUS].trigger, 1))
            samples.add(STEP_BESIDE, self._step_beside(self.savers[ASYNCHRONOUS]))

    def _step(self):
        self.trainer.sess.run(self.trainer.train_op)

    def _step_beside(self, saver):
        start, steps = time.perf_counter(), 0
        while saver._background.is_busy or not steps:
            self._step()
            steps += 1
        return (time.perf_counter() - start) / steps


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        logger.set_logger_dir(directory, action="d")
        savers = {
            SYNCHRONOUS: ModelSaver(max_to_keep=1, checkpoint_dir=f"{directory}/a"),
            ASYNCHRONOUS: ModelSaver(max_to_keep=1, checkpoint_dir=f"{directory}/b", asynchronous=True),
        }
        rounds = Rounds(savers, options.rounds)
        with tf.Graph().as_default():
            trainer = Variables()
            trainer.checks_cost = False
            trainer.train_with_defaults(
                callbacks=[*savers.values(), rounds], extra_callbacks=[], monitors=[], steps_per_epoch=1, max_epoch=0
            )
        logger.close_logger_dir()
    report(rounds, options.out)


def report(rounds, out):
    """Print the figures, and write them to a file if one is named."""
    samples = rounds.samples
    rows = [
        (name, 1000 * samples.median(name), samples.ratio(name, SYNCHRONOUS), samples.ratio(name, STEP))
        for name in (SYNCHRONOUS, ASYNCHRONOUS, COPY, STEP, STEP_BESIDE)
    ]
    title = f"What training waits for a checkpoint of {rounds.bytes / 1e6:.0f} MB, {len(samples.seconds[STEP])} rounds"
    print_table(title, ["", "ms", "of (a)", "of a step"], rows)
    write_json(out, {"bytes": rounds.bytes, "samples": samples.figures()})


if __name__ == "__main__":
    main()
