"""MNIST as the first example of the field has it: a chain of layers, summaries, and an inference runner."""
# ruff: noqa: F403, F405

import argparse

from tests.integration.scripts.digits_data import IMAGE_SIZE, get_data
from tpack import *
from tpack.compat import tfv1 as tf
from tpack.tfutils import gradproc, optimizer, summary
from tpack.tfutils.symbolic_functions import prediction_incorrect


class Model(ModelDesc):
    def inputs(self):
        return [
            tf.TensorSpec((None, IMAGE_SIZE, IMAGE_SIZE), tf.float32, "input"),
            tf.TensorSpec((None,), tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        image = tf.expand_dims(image, 3)
        image = image * 2 - 1

        with argscope(Conv2D, kernel_size=3, activation=tf.nn.relu, filters=32):
            logits = (
                LinearWrap(image)
                .Conv2D("conv0")
                .MaxPooling("pool0", 2)
                .Conv2D("conv1")
                .Conv2D("conv2")
                .FullyConnected("fc0", 128, activation=tf.nn.relu)
                .Dropout("dropout", rate=0.5)
                .FullyConnected("fc1", 10, activation=tf.identity)()
            )

        tf.nn.softmax(logits, name="prob")
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cross_entropy_loss")

        wrong = prediction_incorrect(logits, label)
        tf.cast(tf.nn.in_top_k(logits, label, 1), tf.float32, name="correct")
        train_error = tf.reduce_mean(wrong, name="train_error")
        summary.add_moving_summary(train_error)

        wd_cost = tf.multiply(1e-5, regularize_cost("fc.*/W", tf.nn.l2_loss), name="regularize_loss")
        total_cost = tf.add_n([wd_cost, cost], name="total_cost")
        summary.add_moving_summary(cost, wd_cost, total_cost)
        summary.add_param_summary((".*/W", ["histogram", "rms"]))
        summary.add_tensor_summary(logits, ["mean", "rms"], name="logits")
        return total_cost

    def optimizer(self):
        lr = tf.train.exponential_decay(
            learning_rate=3e-3, global_step=get_global_step_var(), decay_steps=60, decay_rate=0.8, staircase=True
        )
        tf.summary.scalar("lr", lr)
        opt = tf.train.AdamOptimizer(lr)
        return optimizer.apply_grad_processors(opt, [gradproc.GlobalNormClip(5), gradproc.SummaryGradient("conv0.*")])


def get_config(max_epoch):
    dataset_train, dataset_test = get_data("train", 64), get_data("test", 120)
    return TrainConfig(
        model=Model(),
        data=QueueInput(dataset_train),
        callbacks=[
            ModelSaver(),
            InferenceRunner(
                dataset_test,
                [ScalarStats(["cross_entropy_loss", "correct"]), ClassificationError(summary_name="val_error")],
            ),
            MaxSaver("validation_correct"),
            ThroughputTracker(samples_per_step=64),
            EstimatedTimeLeft(),
        ],
        extra_callbacks=[
            MovingAverageSummary(),
            ProgressBar(["cross_entropy_loss"]),
            MergeAllSummaries(),
            RunUpdateOps(),
        ],
        steps_per_epoch=len(dataset_train),
        max_epoch=max_epoch,
    )


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--load", help="a checkpoint to begin with")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args(argv)

    logger.auto_set_dir("d", name="mnist-convnet")
    logger.info(collect_env_info())
    assert get_tf_version_tuple() >= (2, 16)
    config = get_config(args.epochs)
    if args.load:
        config.session_init = SmartInit(args.load)
    launch_train_with_config(config, SimpleTrainer())


if __name__ == "__main__":
    main()
