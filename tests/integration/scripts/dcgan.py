"""A DCGAN with two optimizers in one TowerTrainer, on one or several GPUs, as the field's GAN examples are written."""
# ruff: noqa: F403, F405

import argparse
import os

import cv2
import numpy as np

from tests.integration.scripts.digits_data import IMAGE_SIZE, Digits
from tpack import *
from tpack.compat import tfv1 as tf
from tpack.graph_builder import DataParallelBuilder, LeastLoadedDeviceSetter
from tpack.tfutils.scope_utils import auto_reuse_variable_scope, under_name_scope
from tpack.tfutils.summary import add_moving_summary
from tpack.tfutils.tower import TowerContext, TowerFunc
from tpack.utils.argtools import memoized_method
from tpack.utils.viz import stack_patches

Z_DIM = 8
BATCH = 48


class RandomZData(DataFlow):
    """Noise without end."""

    def __init__(self, shape):
        self.shape = shape

    def reset_state(self):
        self.rng = get_rng(self)

    def __iter__(self):
        while True:
            yield [self.rng.uniform(-1, 1, size=self.shape).astype("float32")]


class GANModelDesc(ModelDescBase):
    def collect_variables(self, g_scope="gen", d_scope="discrim"):
        self.g_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, g_scope)
        self.d_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, d_scope)
        assert self.g_vars and self.d_vars

    @under_name_scope("GAN_loss")
    def build_losses(self, logits_real, logits_fake):
        def cross_entropy(logits, is_real):
            labels = tf.fill(tf.shape(logits), float(is_real))
            return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=labels))

        score_real, score_fake = tf.sigmoid(logits_real), tf.sigmoid(logits_fake)
        d_pos_acc = tf.reduce_mean(tf.cast(score_real > 0.5, tf.float32), name="accuracy_real")
        d_neg_acc = tf.reduce_mean(tf.cast(score_fake < 0.5, tf.float32), name="accuracy_fake")
        d_loss = cross_entropy(logits_real, is_real=True) + cross_entropy(logits_fake, is_real=False)
        self.d_loss = tf.multiply(d_loss, 0.5, name="d_loss")
        self.g_loss = tf.identity(cross_entropy(logits_fake, is_real=True), name="g_loss")
        add_moving_summary(self.g_loss, self.d_loss, d_pos_acc, d_neg_acc)

    @memoized_method
    def get_optimizers(self):
        """One optimizer for the generator, and a slower one for the discriminator."""
        lr = tf.get_variable("learning_rate", initializer=2e-3, trainable=False)
        g_opt = tf.train.AdamOptimizer(lr, beta1=0.5, epsilon=1e-3, name="g_adam")
        d_opt = tf.train.AdamOptimizer(lr * 0.5, beta1=0.5, epsilon=1e-3, name="d_adam")
        return g_opt, optimizer.apply_grad_processors(d_opt, [gradproc.GlobalNormClip(10)])


class Model(GANModelDesc):
    def inputs(self):
        return [tf.TensorSpec((None, IMAGE_SIZE, IMAGE_SIZE), tf.float32, "input")]

    def generator(self, z):
        with argscope(Conv2DTranspose, kernel_size=4, strides=2, activation=BNReLU):
            x = FullyConnected("fc0", z, 2 * 2 * 32, activation=tf.identity)
            x = tf.reshape(x, [-1, 2, 2, 32])
            x = BNReLU(x)
            x = Conv2DTranspose("deconv1", x, 16)
            return Conv2DTranspose("deconv2", x, 1, activation=tf.tanh, use_bias=True)

    @auto_reuse_variable_scope
    def discriminator(self, imgs):
        with argscope(Conv2D, kernel_size=4, strides=2):
            return (
                LinearWrap(imgs)
                .Conv2D("conv0", 16, activation=tf.nn.leaky_relu)
                .Conv2D("conv1", 32, use_bias=False)
                .InstanceNorm("in1")
                .apply(tf.nn.leaky_relu)
                .FullyConnected("fct", 1)()
            )

    def build_graph(self, image_pos):
        image_pos = tf.expand_dims(image_pos * 2.0 - 1.0, -1)
        z = tf.random_uniform([BATCH, Z_DIM], -1, 1, name="z_train")
        z = tf.placeholder_with_default(z, [None, Z_DIM], name="z")

        init = tf.truncated_normal_initializer(0, 0.1)
        with argscope([Conv2D, Conv2DTranspose, FullyConnected], kernel_initializer=init):
            with tf.variable_scope("gen"):
                image_gen = self.generator(z)
            tf.summary.image("generated-samples", image_gen, max_outputs=9)
            tf.identity((image_gen + 1.0) * 127.5, name="generated")
            with tf.variable_scope("discrim"):
                vecpos = self.discriminator(image_pos)
                vecneg = self.discriminator(image_gen)

        self.build_losses(vecpos, vecneg)
        self.collect_variables()


class GANTrainer(TowerTrainer):
    def __init__(self, input, model, num_gpu=1):
        """Build on one GPU, or on several with the variables spread over them."""
        super().__init__()
        assert isinstance(model, GANModelDesc), model
        if num_gpu > 1:
            input = StagingInput(input)
        cbs = input.setup(model.get_input_signature())
        self.register_callback(cbs)
        if num_gpu == 1:
            g_loss, d_loss = self._build_single(input, model)
        else:
            g_loss, d_loss = self._build_multi(input, model, num_gpu)
        self._build_train_op(model, g_loss, d_loss)

    def _build_single(self, input, model):
        self.tower_func = TowerFunc(model.build_graph, model.get_input_signature())
        with TowerContext("", is_training=True):
            self.tower_func(*input.get_input_tensors())
        return model.g_loss, model.d_loss

    def _build_multi(self, input, model, num_gpu):
        raw_devices = [f"/gpu:{k}" for k in range(num_gpu)]

        def get_cost(*inputs):
            model.build_graph(*inputs)
            return [model.g_loss, model.d_loss]

        self.tower_func = TowerFunc(get_cost, model.get_input_signature())
        devices = [LeastLoadedDeviceSetter(d, raw_devices) for d in raw_devices]
        cost_list = DataParallelBuilder.build_on_towers(
            list(range(num_gpu)), lambda: self.tower_func(*input.get_input_tensors()), devices
        )
        with tf.name_scope("optimize"):
            return [tf.add_n(costs) * (1.0 / num_gpu) for costs in zip(*cost_list, strict=True)]

    def _build_train_op(self, model, g_loss, d_loss):
        g_opt, d_opt = model.get_optimizers()
        with tf.name_scope("optimize"):
            g_min = g_opt.minimize(g_loss, var_list=model.g_vars, colocate_gradients_with_ops=True, name="g_op")
            with tf.control_dependencies([g_min]):
                d_min = d_opt.minimize(d_loss, var_list=model.d_vars, colocate_gradients_with_ops=True, name="d_op")
        self.train_op = d_min


def get_data():
    ds = MapData(Digits("train"), lambda dp: [dp[0]])
    return RepeatedData(BatchData(ds, BATCH), -1)


def sample(model, model_path, num):
    """Write grids of samples and return their images."""
    pred = PredictConfig(
        session_init=SmartInit(model_path), model=model, input_names=["z"], output_names=["generated", "z"]
    )
    dataset = FixedSizeData(RandomZData((25, Z_DIM)), num)
    images = []
    for o in SimpleDatasetPredictor(pred, dataset).get_result():
        viz = stack_patches(o[0].astype("uint8"), nr_row=5, nr_col=5)
        cv2.imwrite(os.path.join(logger.get_logger_dir(), f"samples-{len(images)}.png"), viz)
        images.append(o[0])
    return np.concatenate(images)


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-gpu", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--load", help="load model")
    parser.add_argument("--sample", action="store_true", help="view generated examples")
    args = parser.parse_args(argv)
    logger.auto_set_dir(name="dcgan")
    if args.sample:
        return sample(Model(), args.load, 2)

    trainer = GANTrainer(input=QueueInput(get_data()), model=Model(), num_gpu=args.num_gpu)
    trainer.train_with_defaults(
        callbacks=[
            ModelSaver(),
            ScheduledHyperParamSetter("learning_rate", [(0, 4e-3), (1, 2e-3)]),
            CallbackFactory(before_train=lambda cb: logger.info(f"{len(cb.trainer.towers.training())} towers")),
        ],
        steps_per_epoch=30,
        max_epoch=args.epochs,
        session_init=SmartInit(args.load),
    )
    return trainer


if __name__ == "__main__":
    main()
