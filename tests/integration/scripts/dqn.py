"""Deep Q-learning as the field writes it: the replay memory is a data flow and a callback, and plays in a thread."""
# ruff: noqa: F403, F405

import argparse
import threading
from collections import deque

import numpy as np

from tpack import *
from tpack.compat import tfv1 as tf
from tpack.tfutils.summary import add_moving_summary
from tpack.utils.concurrency import LoopThread, ShareSessionThread
from tpack.utils.stats import StatCounter

LENGTH, GAMMA, BATCH = 6, 0.9, 32


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
    def __init__(self, env, memory_size=2000, init_size=300):
        self.env, self.init_size = env, init_size
        self.exploration = 1.0
        self.memory = deque(maxlen=memory_size)
        self.lock = threading.Lock()
        self.is_filled = threading.Event()
        self.rng = get_rng(self)
        self.rewards = StatCounter()

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
            self.rewards.feed(reward)
            self.env.reset()

    def _setup_graph(self):
        self.predictor = self.trainer.get_predictor(["state"], ["Qvalue"])

    def _before_train(self):
        while len(self.memory) < self.init_size:
            self._play()
        self.is_filled.set()
        self._loop = LoopThread(self._play, pausable=False)
        self._thread = ShareSessionThread(self._loop)
        self._thread.start()

    def _trigger(self):
        with self.lock:
            self.trainer.monitors.put_scalar("expreplay/games", self.rewards.count)
            self.rewards.reset()

    def _after_train(self):
        self._loop.stop()
        self._thread.join()


class Model(ModelDesc):
    def inputs(self):
        return [
            tf.TensorSpec([None, LENGTH], tf.float32, "state"),
            tf.TensorSpec([None], tf.int32, "action"),
            tf.TensorSpec([None], tf.float32, "reward"),
            tf.TensorSpec([None], tf.bool, "isOver"),
            tf.TensorSpec([None, LENGTH], tf.float32, "next_state"),
        ]

    def get_dqn_prediction(self, state):
        hidden = FullyConnected("fc0", state, 24, activation=tf.nn.relu)
        hidden = LayerNorm("ln", hidden[:, tf.newaxis, tf.newaxis, :])[:, 0, 0]
        return FullyConnected("fct", hidden, Corridor.num_actions)

    def build_graph(self, state, action, reward, is_over, next_state):
        value = tf.identity(self.get_dqn_prediction(state), name="Qvalue")
        if not self.training:
            return None
        taken = tf.reduce_sum(value * tf.one_hot(action, Corridor.num_actions), 1)
        with tf.variable_scope("target"):
            target_value = self.get_dqn_prediction(next_state)
        best = tf.stop_gradient(tf.reduce_max(target_value, 1))
        target = reward + (1.0 - tf.cast(is_over, tf.float32)) * GAMMA * best
        cost = tf.reduce_mean(tf.square(target - taken), name="cost")
        add_moving_summary(cost, tf.reduce_mean(tf.reduce_max(value, 1), name="predicted_reward"))
        return cost

    def optimizer(self):
        lr = tf.get_variable("learning_rate", initializer=5e-3, trainable=False)
        opt = tf.train.AdamOptimizer(lr, epsilon=1e-3)
        return optimizer.apply_grad_processors(
            opt, [gradproc.GlobalNormClip(10), gradproc.ScaleGradient(("target/.*", 0))]
        )

    @staticmethod
    def update_target_param():
        """Return the operation that copies what is trained to the network that gives the targets."""
        ops = []
        variables = {v.op.name: v for v in tf.global_variables()}
        for name, v in variables.items():
            if name.startswith("target/") and name.count("/") == 2:
                ops.append(v.assign(variables[name[len("target/") :]]))
        return tf.group(*ops, name="update_target_network")


def evaluate(path):
    """Return the values of both actions at each place of the corridor."""
    pred = OfflinePredictor(
        PredictConfig(model=Model(), session_init=SmartInit(path), input_names=["state"], output_names=["Qvalue"])
    )
    return pred(np.eye(LENGTH, dtype="float32")[:-1])[0]


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=["train", "eval"], default="train")
    parser.add_argument("--load")
    args = parser.parse_args(argv)
    if args.task == "eval":
        return evaluate(args.load)
    logger.auto_set_dir("d")
    expreplay = ExpReplay(Corridor())
    config = TrainConfig(
        data=QueueInput(expreplay),
        model=Model(),
        callbacks=[
            ModelSaver(),
            PeriodicTrigger(RunOp(Model.update_target_param, verbose=True), every_k_steps=25),
            expreplay,
            ScheduledHyperParamSetter(ObjAttrParam(expreplay, "exploration"), [(0, 1), (3, 0.5)], interp="linear"),
            ScheduledHyperParamSetter("learning_rate", [(2, 2e-3)]),
        ],
        steps_per_epoch=150,
        max_epoch=4,
    )
    launch_train_with_config(config, SimpleTrainer())
    return None


if __name__ == "__main__":
    main()
