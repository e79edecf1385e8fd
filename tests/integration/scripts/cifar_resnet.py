"""A residual network as the field trains it on CIFAR: NCHW, BNReLU, weight decay, a schedule, several GPUs."""
# ruff: noqa: F403, F405

import argparse

from tests.integration.scripts.digits_data import IMAGE_SIZE, get_augmented_data
from tpack import *
from tpack.compat import tfv1 as tf
from tpack.tfutils.summary import *
from tpack.tfutils.symbolic_functions import accuracy, prediction_incorrect
from tpack.utils.gpu import change_gpu, get_num_gpu

BATCH_SIZE = 64


class Model(ModelDesc):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def inputs(self):
        return [
            tf.TensorSpec([None, IMAGE_SIZE, IMAGE_SIZE, 1], tf.float32, "input"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        image = tf.transpose(image * 2.0 - 1.0, [0, 3, 1, 2])

        def residual(name, x, increase_dim=False, first=False):
            in_channel = x.get_shape().as_list()[1]
            out_channel = in_channel * 2 if increase_dim else in_channel
            with tf.variable_scope(name):
                b1 = x if first else BNReLU(x)
                c1 = Conv2D("conv1", b1, out_channel, strides=2 if increase_dim else 1, activation=BNReLU)
                c2 = Conv2D("conv2", c1, out_channel)
                if increase_dim:
                    x = AvgPooling("pool", x, 2)
                    x = tf.pad(x, [[0, 0], [in_channel // 2, in_channel // 2], [0, 0], [0, 0]])
                return c2 + x

        with (
            argscope([Conv2D, AvgPooling, BatchNorm, GlobalAvgPooling], data_format="channels_first"),
            argscope(
                Conv2D,
                use_bias=False,
                kernel_size=3,
                kernel_initializer=tf.variance_scaling_initializer(scale=2.0, mode="fan_out"),
            ),
        ):
            assert get_arg_scope()["Conv2D"]["kernel_size"] == 3
            x = Conv2D("conv0", image, 8, activation=BNReLU)
            for stage, increase in enumerate((False, True), start=1):
                for k in range(self.n):
                    x = residual(f"res{stage}.{k}", x, increase_dim=increase and k == 0, first=stage == 1 and k == 0)
            x = BNReLU("bnlast", x)
            x = GlobalAvgPooling("gap", x)

        logits = FullyConnected("linear", x, 10)
        tf.nn.softmax(logits, name="output")
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cross_entropy_loss")

        wrong = prediction_incorrect(logits, label)
        add_moving_summary(tf.reduce_mean(wrong, name="train_error"), accuracy(logits, label, name="train_accuracy"))
        wd_w = tf.train.exponential_decay(2e-4, get_global_step_var(), 480, 0.2, True)
        wd_cost = tf.multiply(wd_w, regularize_cost(".*/W", l2_regularizer(1.0)), name="wd_cost")
        add_moving_summary(cost, wd_cost)
        add_param_summary((".*/W", ["histogram"]))
        return tf.add_n([cost, wd_cost], name="cost")

    def optimizer(self):
        lr = tf.get_variable("learning_rate", initializer=0.01, trainable=False)
        tf.summary.scalar("learning_rate-summary", lr)
        return tf.train.MomentumOptimizer(lr, 0.9)


def get_trainer(name, num_gpu):
    return {
        "simple": SimpleTrainer,
        "sync": lambda: SyncMultiGPUTrainer(num_gpu),
        "replicated": lambda: SyncMultiGPUTrainerReplicated(list(range(num_gpu)), mode="cpu"),
        "ps": lambda: SyncMultiGPUTrainerParameterServer(num_gpu, ps_device="cpu"),
        "async": lambda: AsyncMultiGPUTrainer(num_gpu, scale_gradient=True),
    }[name]()


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", help="comma separated list of GPU(s) to use.", default="0")
    parser.add_argument("-n", "--num_units", type=int, default=1)
    parser.add_argument("--trainer", default="sync")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--load")
    args = parser.parse_args(argv)
    logger.auto_set_dir(name="cifar10-resnet")

    with change_gpu(args.gpu):
        num_gpu = max(get_num_gpu(), 1)
    batch = BATCH_SIZE // num_gpu
    dataset_train = get_augmented_data("train", batch)
    dataset_test = get_augmented_data("test", 60)
    infs = [ScalarStats("cross_entropy_loss"), ClassificationError("incorrect_vector")]
    train_input = QueueInput(dataset_train)

    config = TrainConfig(
        model=Model(n=args.num_units),
        data=StagingInput(train_input) if num_gpu > 1 else train_input,
        callbacks=[
            PeriodicTrigger(ModelSaver(max_to_keep=2), every_k_epochs=2),
            InferenceRunner(dataset_test, infs)
            if num_gpu == 1
            else DataParallelInferenceRunner(dataset_test, infs, list(range(num_gpu))),
            ScheduledHyperParamSetter("learning_rate", [(1, 0.1), (4, 0.01)]),
            MinSaver("validation_error"),
            GPUUtilizationTracker(),
            GPUMemoryTracker(),
            HostMemoryTracker(),
            SessionRunTimeout(60000).set_chief_only(True),
        ],
        steps_per_epoch=len(dataset_train) // num_gpu,
        max_epoch=args.epochs,
        session_init=SmartInit(args.load, ignore_mismatch=True),
        session_config=get_default_sess_config(0.9),
    )
    launch_train_with_config(config, get_trainer(args.trainer, num_gpu))


if __name__ == "__main__":
    main()
