"""Train residual networks on ImageNet (ILSVRC 2012), by the usual recipe.

    python examples/imagenet/resnet.py --data /data/ilsvrc12 --towers 8 --batch 512
    python examples/imagenet/resnet.py --data /data/ilsvrc12 --towers 8 --depth 101 --variant se --resume
    python examples/imagenet/resnet.py --data /data/ilsvrc12 --eval --load train_log/imagenet --towers 8
    python examples/imagenet/resnet.py --load train_log/imagenet --predict cat.jpg dog.jpg
    python examples/imagenet/resnet.py --fake --towers 8 --batch 512    # how fast, without any data

DIR holds the unpacked archives: `train` with a directory for each synset, and `val`, with all images in one directory
or sorted by synset. Images in one directory need the lists of caffe_ilsvrc12.tar.gz, see --meta.

The recipe: batches of 256, or any size with the learning rate in proportion to it (0.1 for 256) and a warm-up over five
epochs; a tenth of it from epochs 30, 60 and 90 on; Nesterov momentum 0.9, weight decay 1e-4, label smoothing 0.1; crops
of random place and shape, random colours, flips. The log tells the throughput of every epoch, and the errors of the
first guess and of the first five over all validation images, each of which counts once. A run that is continued with
--resume goes on with the very next batch. Needs the extra `vision`.
"""

import argparse
import os

import numpy as np
import tensorflow.compat.v1 as tf
from imagenet_data import fake_batches, image_to_predict, training_batches, validation_batches
from imagenet_model import ImageNetModel
from resnet_model import BLOCKS, BOTTLENECK_DEPTH, VARIANTS, ResNet

from tpack import (
    AutoResumeTrainConfig,
    ClassificationError,
    DataParallelInferenceRunner,
    JSONWriter,
    MinSaver,
    ModelSaver,
    NoOpTrainer,
    PlaceholderInput,
    SmartInit,
    SyncMultiGPUTrainerHierarchical,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    fix_rng_seed,
    launch_train_with_config,
    logger,
)
from tpack.callbacks import EstimatedTimeLeft, HyperParamSetterWithFunc, ThroughputTracker
from tpack.dataflow.dataset import ILSVRCMeta
from tpack.errors import InputError
from tpack.predict import OfflinePredictor, PredictConfig

TRAINERS = {
    "replicated": SyncMultiGPUTrainerReplicated,
    "hierarchical": SyncMultiGPUTrainerHierarchical,
    "parameter-server": SyncMultiGPUTrainerParameterServer,
}
PRECISIONS = {"float32": tf.float32, "bfloat16": tf.bfloat16, "float16": tf.float16}
IMAGES_PER_EPOCH = 1281167
RATE_OF_256 = 0.1
WARM_UP_EPOCHS = 5
DECAY_EPOCHS = (30, 60, 90)
ERRORS = {"wrong-top1": "val-error-top1", "wrong-top5": "val-error-top5"}


def learning_rate(epoch, batch):
    """Return the learning rate of an epoch, counted from 1, for a global batch."""
    rate = RATE_OF_256 * batch / 256
    if rate > RATE_OF_256 and epoch <= WARM_UP_EPOCHS:
        # From what is safe for any batch up to the rate of this one, which would be too much in the beginning.
        return RATE_OF_256 + (rate - RATE_OF_256) * (epoch - 1) / WARM_UP_EPOCHS
    return rate * 0.1 ** sum(epoch > decay for decay in DECAY_EPOCHS)


def make_model(options):
    network = ResNet(options.depth, options.variant, options.classes, options.data_format)
    return ImageNetModel(network, options.size, compute_dtype=PRECISIONS[options.precision])


def training_data(options):
    """Return the flow of the towers' batches, and how many steps an epoch has."""
    batch = options.batch // options.towers
    if options.fake:
        steps = options.steps_per_epoch or IMAGES_PER_EPOCH // options.batch
        return fake_batches(steps * options.towers, batch, options.size, options.classes), steps
    flow, num_images = training_batches(
        options.data, batch, options.size, options.classes, meta_dir=options.meta, num_workers=options.workers
    )
    return flow, options.steps_per_epoch or num_images // options.batch


def evaluation(options):
    """Return a callback that counts the errors over all validation images, on all towers."""
    flow = validation_batches(
        options.data,
        options.batch // options.towers,
        options.size,
        options.classes,
        meta_dir=options.meta,
        num_workers=options.workers,
    )
    counts = [ClassificationError(wrong, name) for wrong, name in ERRORS.items()]
    return DataParallelInferenceRunner(flow, counts, options.towers)


def train(options):
    flow, steps_per_epoch = training_data(options)
    callbacks = [
        ModelSaver(max_to_keep=5),
        HyperParamSetterWithFunc("learning_rate", lambda epoch, _: learning_rate(epoch + 1, options.batch)),
        ThroughputTracker(options.batch),
        EstimatedTimeLeft(),
    ]
    if not options.fake:
        callbacks += [evaluation(options), MinSaver("val-error-top1")]
    config = (AutoResumeTrainConfig if options.resume else TrainConfig)(
        model=make_model(options),
        # Each tower takes a batch of its own from a queue that a thread fills.
        dataflow=flow,
        callbacks=callbacks,
        steps_per_epoch=steps_per_epoch,
        max_epoch=options.epochs,
        session_init=SmartInit(options.load),
    )
    launch_train_with_config(config, TRAINERS[options.trainer](options.towers, precision=options.precision))
    last = JSONWriter.load_existing_json()[-1]
    print(f"Throughput: {last.get('Throughput (samples/sec)', float('nan')):.1f} images a second")
    print_errors(last)


def evaluate(options):
    """Run nothing but the evaluation, as the one epoch of a training whose steps do nothing."""
    config = TrainConfig(
        model=make_model(options),
        data=PlaceholderInput(),
        callbacks=[evaluation(options)],
        extra_callbacks=[],
        steps_per_epoch=1,
        max_epoch=1,
        session_init=SmartInit(options.load),
    )
    launch_train_with_config(config, NoOpTrainer(precision=options.precision))
    print_errors(JSONWriter.load_existing_json()[-1])


def print_errors(statistics):
    for name in ERRORS.values():
        if name in statistics:
            print(f"{name}: {statistics[name]:.6f}")


def predict(options):
    """Print the first guesses for images."""
    config = PredictConfig(
        model=make_model(options),
        session_init=SmartInit(options.load),
        input_names=["image"],
        output_names=["probabilities"],
        precision=options.precision,
    )
    predictor = OfflinePredictor(config)
    names = class_names(options.meta)
    for path in options.predict:
        (probabilities,) = predictor(image_to_predict(path, options.size)[np.newaxis])
        guesses = np.argsort(-probabilities[0])[:5]
        print(f"{path}: " + ", ".join(f"{names.get(k, k)} ({probabilities[0][k]:.3f})" for k in guesses.tolist()))


def class_names(meta_dir):
    """Return the names of the classes where the lists are there; their numbers do otherwise."""
    try:
        return ILSVRCMeta(meta_dir).get_synset_words_1000()
    except InputError as error:
        logger.info(f"Classes are told by their numbers: {error}")
        return {}


def make_parser():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--data", metavar="DIR", help="where `train` and `val` are")
    add("--meta", metavar="DIR", help="where synsets.txt, train.txt and val.txt are, if not in their usual place")
    add("--fake", action="store_true", help="train on random images that cost nothing, to see how fast it is")
    add("--eval", action="store_true", help="only evaluate the model of --load")
    add("--predict", nargs="+", metavar="IMAGE", help="only tell what the model of --load takes images for")
    add("--load", metavar="CHECKPOINT", help="a checkpoint, a directory of checkpoints, or an .npz file")
    add("--resume", action="store_true", help="go on from the last checkpoint in the log directory")
    add("--logdir", default="train_log/imagenet", help="one that exists is moved aside, or resumed from")
    add("--depth", type=int, default=50, choices=BLOCKS)
    add("--variant", "--mode", default="resnet", choices=VARIANTS, help="what the blocks are (default: resnet)")
    add("--trainer", default="replicated", choices=TRAINERS)
    add("--towers", type=int, default=1, help="how many (default: 1)")
    add("--batch", type=int, default=256, help="images a step, in all towers together (default: 256)")
    add("--epochs", type=int, default=100, help="the last epoch (default: 100)")
    add("--steps-per-epoch", type=int, help="instead of what the number of images says")
    add("--precision", default="float32", choices=PRECISIONS, help="what the network computes in (default: float32)")
    add("--data-format", default="channels_last", choices=("channels_last", "channels_first"))
    add("--size", type=int, default=224, help="height and width of the images (default: 224)")
    add("--classes", type=int, default=1000, help="how many (default: 1000)")
    add("--workers", type=int, default=os.cpu_count(), help="processes that read and augment images; 0 for none")
    add("--seed", type=int, help="of weights, order and augmentation; without it each run differs")
    return parser


def check(parser, options):
    """Refuse what cannot work, before anything is done."""
    if not (options.fake or options.data or options.predict):
        parser.error("give the directory of the images with --data, or --fake")
    if (options.eval or options.predict) and not options.load:
        parser.error("--eval and --predict need a model: give it with --load")
    if options.eval and not options.data:
        parser.error("--eval needs images: give their directory with --data")
    if options.towers < 1 or options.batch < 1 or options.batch % options.towers:
        parser.error(f"a batch of {options.batch} images cannot be divided among {options.towers} towers")
    if options.variant == "resnext" and options.depth < BOTTLENECK_DEPTH:
        parser.error(f"resnext has a depth of {BOTTLENECK_DEPTH} or more, not {options.depth}")


def main():
    parser = make_parser()
    options = parser.parse_args()
    check(parser, options)
    if options.predict:
        return predict(options)
    # What an evaluation writes lies beside the training, and takes nobody's place.
    directory = os.path.join(options.logdir, "eval") if options.eval else options.logdir
    logger.set_logger_dir(directory, action="k" if options.resume or options.eval else "b")
    fix_rng_seed(options.seed)
    with tf.Graph().as_default():
        if options.seed is not None:
            tf.set_random_seed(options.seed)
        return evaluate(options) if options.eval else train(options)


if __name__ == "__main__":
    main()
