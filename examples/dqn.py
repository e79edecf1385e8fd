"""Deep Q-learning with a target network and a replay memory that goes on filling while the network trains.

    python examples/dqn.py
    python examples/dqn.py --load train_log/dqn/checkpoint

It shows data that come from the model itself: the replay memory is a data flow, which gives batches of what was played,
and a callback, which plays in a thread by the current weights. What explores less and less is an attribute of a Python
object, set by a schedule like a learning rate. The game is a corridor of six places with a reward at its right end;
after 1,000 steps, 10 seconds on two cores, the values of all moves differ by less than 0.05 from those that follow from
the rules.

Source:
    Mnih et al., "Human-level control through deep reinforcement learning", Nature 2015
"""

import argparse
import os
import threading
from collections import deque

import numpy as np
import tensorflow.compat.v1 as tf

from tpack import (
    Callback,
    DataFlow,
    FullyConnected,
    ModelDesc,
    ModelSaver,
    ObjAttrParam,
    OfflinePredictor,
    PeriodicTrigger,
    PredictConfig,
    QueueInput,
    RunOp,
    ScheduledHyperParamSetter,
    SimpleTrainer,
    SmartInit,
    TrainConfig,
    get_rng,
    gradproc,
    launch_train_with_config,
    logger,
    optimizer,
)
from tpack.tfutils.summary import add_moving_summary
from tpack.utils.concurrency import LoopThread, ShareSessionThread

LENGTH, GAMMA, BATCH, STEPS = 6, 0.9, 32, 250


class Corridor:
    """Walk left or right; a reward waits at the right end."""

    num_actions = 2

    def __init__(self):
        self.reset()

    def reset(self):
        self.position = 0

    def state(self):
        return np.eye(LENGTH, dtype="float32")[self.position]

    def step(self, action):
        self.position = max(self.position + (1 if action == 1 else -1), 0)
        is_over = self.position == LENGTH - 1
        return float(is_over), is_over


class ExpReplay(DataFlow, Callback):
    """Yields batches of [states, actions, rewards, whether the game was over, next states], and plays meanwhile."""

    def __init__(self):
        self.env, self.memory = Corridor(), deque(maxlen=2000)
        self.exploration = 1.0
        self.lock = threading.Lock()
        self.is_filled = threading.Event()
        self.rng = get_rng(self)
        self.games = 0

    def __iter__(self):
        self.is_filled.wait()
        while True:
            with self.lock:
                picked = [self.memory[k] for k in self.rng.randint(len(self.memory), size=BATCH)]
            yield [np.array(part) for part in zip(*picked, strict=True)]

    def _play(self):
        state = self.env.state()
        if self.rng.rand() <= self.exploration:
            action = self.rng.randint(self.env.num_actions)
        else:
            action = int(self.predictor(state[np.newaxis])[0][0].argmax())
        reward, is_over = self.env.step(action)
        with self.lock:
            self.memory.append((state, np.int32(action), np.float32(reward), is_over, self.env.state()))
        if is_over:
            self.games += 1
            self.env.reset()

    def _setup_graph(self):
        self.predictor = self.trainer.get_predictor(["state"], ["Qvalue"])

    def _before_train(self):
        while len(self.memory) < 300:
            self._play()
        self.is_filled.set()
        self._loop = LoopThread(self._play, pausable=False)
        self._thread = ShareSessionThread(self._loop)
        self._thread.start()

    def _trigger(self):
        self.trainer.monitors.put_scalar("expreplay/games", self.games)

    def _after_train(self):
        self._loop.stop()
        self._thread.join()


class Model(ModelDesc):
    def inputs(self):
        states = [tf.TensorSpec([None, LENGTH], tf.float32, name) for name in ("state", "next_state")]
        kinds = {"action": tf.int32, "reward": tf.float32, "isOver": tf.bool}
        return [states[0], *(tf.TensorSpec([None], kind, name) for name, kind in kinds.items()), states[1]]

    def get_dqn_prediction(self, state):
        """Return the value of each action, [B, 2], in states, [B, 6]."""
        hidden = FullyConnected("fc0", state, 24, activation=tf.nn.relu)  # [B, 24]
        return FullyConnected("fct", hidden, Corridor.num_actions)

    def build_graph(self, state, action, reward, is_over, next_state):
        value = tf.identity(self.get_dqn_prediction(state), name="Qvalue")  # [B, 2]
        if not self.training:
            return None
        taken = tf.reduce_sum(value * tf.one_hot(action, Corridor.num_actions), 1)  # [B]
        with tf.variable_scope("target"):
            target_value = self.get_dqn_prediction(next_state)
        best = tf.stop_gradient(tf.reduce_max(target_value, 1))  # [B]
        target = reward + (1.0 - tf.cast(is_over, tf.float32)) * GAMMA * best
        cost = tf.reduce_mean(tf.square(target - taken), name="cost")
        add_moving_summary(cost, tf.reduce_mean(tf.reduce_max(value, 1), name="predicted_reward"))
        return cost

    def optimizer(self):
        processors = [gradproc.GlobalNormClip(10), gradproc.ScaleGradient(("target/.*", 0))]
        return optimizer.apply_grad_processors(tf.train.AdamOptimizer(1e-2), processors)

    @staticmethod
    def update_target_param():
        """Return the operation that copies what is trained to the network that gives the targets."""
        variables = {variable.op.name: variable for variable in tf.trainable_variables()}
        targets = [name for name in variables if name.startswith("target/")]
        copies = [variables[name].assign(variables[name.removeprefix("target/")]) for name in targets]
        return tf.group(*copies, name="update_target_network")


def evaluate(path):
    """Return the values of both actions at each place but the last, and those of the rules, [5, 2] both."""
    config = PredictConfig(model=Model(), session_init=SmartInit(path), input_names=["state"], output_names=["Qvalue"])
    right = GAMMA ** np.arange(LENGTH - 2, -1, -1)
    # A step to the left costs that step and the one back; at the wall only the one that led nowhere.
    left = GAMMA * np.concatenate([right[:1], right[:-1]])
    return OfflinePredictor(config)(np.eye(LENGTH, dtype="float32")[:-1])[0], np.stack([left, right], axis=1)


def train(options):
    logger.auto_set_dir("b")
    replay = ExpReplay()
    config = TrainConfig(
        model=Model(),
        data=QueueInput(replay),
        callbacks=[
            ModelSaver(),
            PeriodicTrigger(RunOp(Model.update_target_param, verbose=True), every_k_steps=40),
            replay,
            ScheduledHyperParamSetter(ObjAttrParam(replay, "exploration"), [(0, 1), (3, 0.5)], interp="linear"),
        ],
        steps_per_epoch=options.steps,
        max_epoch=options.epochs,
    )
    launch_train_with_config(config, SimpleTrainer())
    return os.path.join(logger.get_logger_dir(), "checkpoint")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=4, help="how many (default: 4)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"in each epoch (default: {STEPS})")
    parser.add_argument("--load", metavar="CHECKPOINT", help="only evaluate it")
    options = parser.parse_args(argv)
    with tf.Graph().as_default():
        checkpoint = options.load or train(options)
    with tf.Graph().as_default():
        values, wanted = evaluate(checkpoint)
    print(f"Largest error of a value: {abs(values - wanted).max():.3f}")
    return values


if __name__ == "__main__":
    main()
