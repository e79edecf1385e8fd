"""Everything that changes a training while it runs: a person, a statistic, a function, a condition, the optimizer."""
# ruff: noqa: F403, F405

import argparse
import os
import queue

from tests.integration.scripts.digits_data import Digits
from tpack import *
from tpack.compat import tfv1 as tf
from tpack.tfutils.collection import backup_collection, freeze_collection, restore_collection
from tpack.tfutils.dependency import dependency_of_fetches, dependency_of_targets
from tpack.tfutils.optimizer import PostProcessOptimizer, VariableAssignmentOptimizer
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.utils.concurrency import StoppableThread
from tpack.utils.stats import RatioCounter, StatCounter


class Noise(ProxyDataFlow):
    """Adds noise, as much as somebody says at that moment."""

    level = 0.5

    def reset_state(self):
        super().reset_state()
        self.rng = get_rng(self)

    def __iter__(self):
        for image, label in self.ds:
            yield [image + self.level * self.rng.normal(size=image.shape).astype("float32"), label]


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        ctx = get_current_tower_context()
        if execute_only_once():
            logger.info(f"the first tower is {ctx.name!r}, training: {ctx.is_training}")
        before = backup_collection([tf.GraphKeys.SUMMARIES])
        with freeze_collection([tf.GraphKeys.UPDATE_OPS]):
            image = BatchNorm("still", image[:, :, :, tf.newaxis])
            tf.summary.scalar("thrown_away", tf.reduce_mean(image))
        restore_collection(before)

        logits = FullyConnected("fc", image, 10, kernel_initializer=tf.zeros_initializer())
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cost")
        tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, label, 1), tf.float32), name="accuracy")
        assert dependency_of_targets([cost], logits)
        assert not dependency_of_fetches({"input": [image]}, cost)
        return cost

    def optimizer(self):
        lr = tf.get_variable("learning_rate", initializer=1.0, trainable=False)
        opt = tf.train.GradientDescentOptimizer(lr)
        opt = PostProcessOptimizer(opt, lambda var: tf.debugging.check_numerics(var, var.op.name).op)
        return VariableAssignmentOptimizer(
            opt, lambda var: None if var.op.name.endswith("/b") else tf.clip_by_value(var, -0.5, 0.5)
        )


class StopWhenGood(Callback):
    """Ends training when the validation is good enough."""

    def __init__(self, bound):
        self.bound = bound

    def _trigger(self):
        if self.epoch_num > 5 and self.trainer.monitors.get_latest("validation_accuracy") > self.bound:
            raise StopTraining(f"validation is above {self.bound}")


class Person(Callback):
    """Writes the file that HumanHyperParamSetter reads, as a person would."""

    def _trigger_epoch(self):
        if self.epoch_num == 2:
            with open(os.path.join(logger.get_logger_dir(), "hyper.txt"), "w") as file:
                file.write("noise: 0.05\n")


class Collector(StoppableThread):
    """Takes costs out of a queue, until it is told to stop."""

    def __init__(self):
        super().__init__(daemon=True)
        self.queue = queue.Queue()
        self.small, self.costs = RatioCounter(), StatCounter()

    def run(self):
        while (cost := self.queue_get_stoppable(self.queue)) is not None:
            self.small.feed(float(cost) < 1.0)
            self.costs.feed(float(cost))


def get_callbacks(noise, collector):
    data = TensorInput(lambda: [tf.constant(each) for each in (Digits("test").images, Digits("test").labels)], size=1)
    rate_of_step = HyperParamSetterWithFunc("learning_rate", lambda epoch, rate: rate * 0.5 if epoch == 2 else None)
    return [
        PeriodicTrigger(ModelSaver(max_to_keep=2), every_k_steps=20),
        InferenceRunner(data, ScalarStats(["cost", "accuracy"])),
        Person(),
        HumanHyperParamSetter(ObjAttrParam(noise, "level", readable_name="noise"), "hyper.txt"),
        rate_of_step,
        StatMonitorParamSetter("learning_rate", "validation_cost", lambda rate: rate * 0.1, threshold=0.5, last_k=3),
        StartProcOrThread(collector),
        PeriodicCallback(TensorPrinter(["cost"]), every_k_epochs=2),
        PeriodicCallback(ProcessTensors(["cost"], collector.queue.put), every_k_steps=5),
        EnableCallbackIf(
            CallbackFactory(trigger=lambda cb: cb.trainer.monitors.put_scalar("late", cb.epoch_num)),
            lambda cb: cb.epoch_num > 4,
        ),
        RunOp(lambda: tf.print("step", tf.train.get_global_step(), output_stream="file://printed"), run_before=False),
        SimpleMovingAverage(["cost"], 10),
        HookToCallback(tf.train.NanTensorHook("cost:0")),
        SendStat("echo {validation_accuracy:.3f} >> sent", ["validation_accuracy"]),
        StopWhenGood(0.85),
    ]


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=40)
    args = parser.parse_args(argv)
    logger.auto_set_dir("d")
    noise, collector = Noise(Digits("train")), Collector()
    config = TrainConfig(
        model=Model(),
        dataflow=BatchData(noise, 120),
        callbacks=get_callbacks(noise, collector),
        session_creator=NewSessionCreator(),
        max_epoch=args.epochs,
    )
    launch_train_with_config(config, SimpleTrainer())
    return collector


if __name__ == "__main__":
    main()
