"""A network of quantised weights and activations: the variables are replaced where layers ask for them (DoReFa-Net)."""
# ruff: noqa: F403, F405

import argparse

from tests.integration.scripts.digits_data import IMAGE_SIZE, get_data
from tpack import *
from tpack.compat import tfv1 as tf
from tpack.tfutils.summary import add_activation_summary, add_moving_summary
from tpack.tfutils.symbolic_functions import prediction_incorrect, rms
from tpack.tfutils.varreplace import remap_variables
from tpack.utils.argtools import shape2d


def get_dorefa(bit_w, bit_a):
    """Return functions that quantise weights and activations, through which gradients pass as if they did nothing."""

    def quantize(x, k):
        n = float(2**k - 1)

        @tf.custom_gradient
        def rounded(x):
            return tf.round(x * n) / n, lambda dy: dy

        return rounded(x)

    def fw(x):
        if bit_w == 32:
            return x
        if bit_w == 1:
            scale = tf.stop_gradient(tf.reduce_mean(tf.abs(x)))

            @tf.custom_gradient
            def signed(x):
                return tf.where(x >= 0, tf.ones_like(x), -tf.ones_like(x)) * scale, lambda dy: dy

            return signed(x)
        x = tf.tanh(x)
        x = x / tf.reduce_max(tf.abs(x)) * 0.5 + 0.5
        return 2 * quantize(x, bit_w) - 1

    def fa(x):
        return x if bit_a == 32 else quantize(x, bit_a)

    return fw, fa


@layer_register(log_shape=True)
def ScaleChannels(x, init=1.0, name="scale"):
    """Multiply each channel with a weight of its own."""
    scale = tf.get_variable(name, [x.shape[-1]], initializer=tf.constant_initializer(init))
    result = tf.multiply(x, scale, name="output")
    result.variables = VariableHolder(scale=scale)
    return result


class Model(ModelDesc):
    def __init__(self, bit_w, bit_a):
        super().__init__()
        self.bits = bit_w, bit_a

    def inputs(self):
        return [
            tf.TensorSpec([None, IMAGE_SIZE, IMAGE_SIZE], tf.float32, "input"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        fw, fa = get_dorefa(*self.bits)

        def new_get_variable(v):
            name = v.op.name
            # The first and the last layer are not quantised.
            if not name.endswith("W") or "conv0" in name or "fct" in name:
                return v
            logger.info(f"Quantizing weight {name}")
            layer = name.split("/")[-2]
            return tf.identity(fw(v), name=f"quantized_{layer}")

        def activate(x):
            return fa(tf.clip_by_value(x, 0.0, 1.0))

        image = tf.expand_dims(image, 3)
        with (
            remap_variables(new_get_variable),
            argscope(BatchNorm, momentum=0.9, epsilon=1e-4),
            argscope(Conv2D, use_bias=False, kernel_size=shape2d(3)),
        ):
            logits = (
                LinearWrap(image)
                .Conv2D("conv0", 16, use_bias=True)
                .PReLU("prelu0")
                .apply(activate)
                .Conv2D("conv1", 24)
                .BatchNorm("bn1")
                .MaxPooling("pool1", 2)
                .apply(activate)
                .Conv2D("conv2", 32)
                .BatchNorm("bn2")
                .apply(activate)
                .ScaleChannels("scaled", init=2.0)
                .GlobalAvgPooling("gap")
                .FullyConnected("fct", 10)()
            )
        tf.nn.softmax(logits, name="output")
        add_activation_summary(logits, ["rms"], name="logits")
        wrong = prediction_incorrect(logits, label)
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cross_entropy_loss")
        add_moving_summary(tf.reduce_mean(wrong, name="train_error"), cost, rms(logits, name="logits_rms"))
        return cost

    def optimizer(self):
        lr = tf.train.exponential_decay(2e-2, get_global_step_var(), 60, 0.7, True, name="learning_rate")
        tf.summary.scalar("lr", lr)
        return tf.train.AdamOptimizer(lr, epsilon=1e-5)


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--dorefa", help="number of bits for W,A", default="1,4")
    parser.add_argument("--num-gpu", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args(argv)
    bits = [int(bit) for bit in args.dorefa.split(",")]
    logger.auto_set_dir("d", name=f"dorefa-{args.dorefa}")

    train = get_data("train", 60 // args.num_gpu)
    config = TrainConfig(
        model=Model(*bits),
        data=FeedInput(train) if args.num_gpu == 1 else QueueInput(train),
        steps_per_epoch=24,
        callbacks=[
            ModelSaver(max_to_keep=1),
            InferenceRunner(FeedInput(get_data("test", 90), infinite=False), [ClassificationError()]),
        ],
        max_epoch=args.epochs,
    )
    launch_train_with_config(
        config, SyncMultiGPUTrainerReplicated(args.num_gpu) if args.num_gpu > 1 else SimpleTrainer()
    )


if __name__ == "__main__":
    main()
