"""CIFAR as the field trains it: augmentors, batches from a process, a small convolutional network."""
# ruff: noqa: F403, F405

import argparse

from tpack import *
from tpack.compat import tfv1 as tf
from tpack.dataflow import dataset, imgaug
from tpack.tfutils.summary import add_moving_summary
from tpack.tfutils.symbolic_functions import prediction_incorrect
from tpack.utils.argtools import memoized, shape2d
from tpack.utils.gpu import change_gpu, get_num_gpu

BATCH, CROP = 50, 30


class Model(ModelDesc):
    def __init__(self, cifar_classnum):
        super().__init__()
        self.cifar_classnum = cifar_classnum

    def inputs(self):
        return [tf.TensorSpec([None, CROP, CROP, 3], tf.float32, "input"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        with argscope(Conv2D, activation=BNReLU, use_bias=False, kernel_size=3, filters=16):
            logits = (
                LinearWrap(image)
                .Conv2D("conv1", strides=2)
                .Conv2D("conv2")
                .MaxPooling("pool", 3, stride=2, padding="SAME")
                .Conv2D("conv3")
                .GlobalAvgPooling("gap")
                .FullyConnected("linear", self.cifar_classnum)()
            )
        tf.nn.softmax(logits, name="output")
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cross_entropy_loss")
        wrong = prediction_incorrect(logits, label)
        add_moving_summary(tf.reduce_mean(wrong, name="train_error"), cost)
        return cost

    def optimizer(self):
        lr = tf.get_variable("learning_rate", initializer=2e-2, trainable=False)
        return tf.train.AdamOptimizer(lr, epsilon=1e-3)


@memoized
def get_mean(Cifar, directory):
    return Cifar("train", dir=directory).get_per_channel_mean(("train",))


def get_data(train_or_test, cifar_classnum, directory):
    isTrain = train_or_test == "train"
    Cifar = dataset.Cifar10 if cifar_classnum == 10 else dataset.Cifar100
    ds = Cifar(train_or_test, dir=directory)
    mean = get_mean(Cifar, directory)
    if isTrain:
        augmentors = [
            imgaug.CenterPaste((36, 36), imgaug.ConstantBackgroundFiller(mean.astype(int).tolist())),
            imgaug.RandomCrop(shape2d(CROP)),
            imgaug.Flip(horiz=True),
            imgaug.Brightness(40),
            imgaug.Contrast((0.6, 1.4)),
        ]
    else:
        augmentors = [imgaug.CenterCrop((CROP, CROP))]
    augmentors += [imgaug.MapImage(lambda x: x - mean), imgaug.MeanVarianceNormalize(all_channel=True)]
    ds = AugmentImageComponent(ds, augmentors)
    ds = BatchData(ds, BATCH, remainder=not isTrain)
    if isTrain:
        ds = PrintData(MultiProcessRunnerZMQ(ds, 1), name="cifar-train")
    return ds


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="directory of the unpacked archives")
    parser.add_argument("--classnum", help="10 for cifar10 or 100 for cifar100", type=int, default=10)
    parser.add_argument("--gpu", help="comma separated list of GPUs", default="0")
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args(argv)
    logger.auto_set_dir(name=f"cifar{args.classnum}")
    logger.info(collect_env_info())
    assert get_tf_version_tuple() >= (2, 16)
    with change_gpu(args.gpu):
        num_gpu = max(get_num_gpu(), 1)

    dataset_train = get_data("train", args.classnum, args.data)
    dataset_test = get_data("test", args.classnum, args.data)
    config = TrainConfig(
        model=Model(args.classnum),
        data=QueueInput(dataset_train),
        callbacks=[
            ModelSaver(),
            InferenceRunner(dataset_test, [ScalarStats("cross_entropy_loss"), ClassificationError()]),
            GPUUtilizationTracker(),
            GPUMemoryTracker(),
            HostMemoryTracker(),
            SessionRunTimeout(60000).set_chief_only(True),
        ],
        extra_callbacks=[
            MovingAverageSummary(),
            ProgressBar(["cross_entropy_loss"]),
            MergeAllSummaries(),
            RunUpdateOps(),
        ],
        steps_per_epoch=20,
        max_epoch=args.epochs,
    )
    launch_train_with_config(config, SyncMultiGPUTrainer(num_gpu))


if __name__ == "__main__":
    main()
