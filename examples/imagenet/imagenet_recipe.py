"""What the scripts that train on ImageNet have in common: the recipe, the options, and what is done with a network.

A script says which network it has, with what recipe, and which options of its own.
"""

import argparse
import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tensorflow.compat.v1 as tf
from imagenet_data import fake_batches, image_to_predict, training_batches, validation_batches
from imagenet_model import ImageNetModel, cost_of

from tpack import (
    AsyncMultiGPUTrainer,
    AutoResumeTrainConfig,
    ClassificationError,
    DataParallelInferenceRunner,
    DistributedTrainerParameterServer,
    DistributedTrainerReplicated,
    JSONWriter,
    MinSaver,
    MirroredStrategy,
    ModelSaver,
    MultiWorkerTrainerReplicated,
    NoOpTrainer,
    PlaceholderInput,
    SimpleTrainer,
    SmartInit,
    StrategyTrainer,
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
from tpack.errors import ConfigError, InputError
from tpack.multi_worker.ps_trainer import DistributedTrainer
from tpack.predict import OfflinePredictor, PredictConfig
from tpack.tfutils.export import ModelExporter

# Those of a cluster train in several processes, as `tpack launch` starts them, and the last three want `--ps` of it.
TRAINERS = {
    "simple": lambda towers, **options: SimpleTrainer(**options),
    "replicated": SyncMultiGPUTrainerReplicated,
    "hierarchical": SyncMultiGPUTrainerHierarchical,
    "parameter-server": SyncMultiGPUTrainerParameterServer,
    "async": AsyncMultiGPUTrainer,
    "strategy": lambda towers, **options: StrategyTrainer(MirroredStrategy(num_gpus=towers), **options),
    "cluster": MultiWorkerTrainerReplicated,
    "cluster-parameter-server": functools.partial(DistributedTrainerParameterServer, synchronous=True),
    "cluster-async": DistributedTrainerParameterServer,
    "cluster-replicated": DistributedTrainerReplicated,
}
PRECISIONS = {"float32": tf.float32, "bfloat16": tf.bfloat16, "float16": tf.float16}
IMAGES_PER_EPOCH = 1281167
ERRORS = {"wrong-top1": "val-error-top1", "wrong-top5": "val-error-top5"}


@dataclass(frozen=True)
class Recipe:
    """How a kind of network is trained, and what it is made of.

    Attributes:
        make_network: takes the options, and returns a function of images that returns logits.
        rate: the learning rate of a batch of 256; that of another batch is in proportion to it.
        warm_up_epochs: how long a rate above this one is approached from it.
        decay_epochs: after each of which the rate is a tenth.
        is_linear: let the rate fall to zero on a straight line instead, up to the last epoch.
        epochs: the last one, unless the options say otherwise.
        size: height and width of the images.
        weight_decay: of all kernels and matrices.
        label_smoothing: how much of the probability the wrong classes get.
    """

    make_network: Callable[[argparse.Namespace], Callable[[tf.Tensor], tf.Tensor]]
    rate: float = 0.1
    warm_up_epochs: int = 5
    decay_epochs: Sequence[int] = (30, 60, 90)
    is_linear: bool = False
    epochs: int = 100
    size: int = 224
    weight_decay: float = 1e-4
    label_smoothing: float = 0.1

    def learning_rate(self, epoch, batch):
        """Return the learning rate of an epoch, counted from 1, for a global batch."""
        rate = self.rate * batch / 256
        if rate > self.rate and epoch <= self.warm_up_epochs:
            # From what is safe for any batch up to the rate of this one, which would be too much in the beginning.
            return self.rate + (rate - self.rate) * (epoch - 1) / self.warm_up_epochs
        if self.is_linear:
            return rate * max(0.0, 1 - (epoch - 1) / self.epochs)
        return rate * 0.1 ** sum(epoch > decay for decay in self.decay_epochs)

    def make_model(self, options):
        return ImageNetModel(
            self.make_network(options),
            options.size,
            weight_decay=self.weight_decay,
            label_smoothing=self.label_smoothing,
            compute_dtype=PRECISIONS[options.precision],
        )


def training_data(options, processes=1, seed=0):
    """Return the flow of the batches of this process's towers, and how many steps an epoch has."""
    batch = options.batch // options.towers // processes
    if options.fake:
        steps = options.steps_per_epoch or IMAGES_PER_EPOCH // options.batch
        return fake_batches(steps * options.towers, batch, options.size, options.classes), steps
    flow, num_images = training_batches(
        options.data,
        batch,
        options.size,
        options.classes,
        meta_dir=options.meta,
        num_workers=options.workers,
        seed=seed,
    )
    return flow, options.steps_per_epoch or num_images // options.batch


def evaluation(options, processes=1):
    """Return a callback that counts the errors over all validation images, on all towers."""
    flow = validation_batches(
        options.data,
        options.batch // options.towers // processes,
        options.size,
        options.classes,
        meta_dir=options.meta,
        num_workers=options.workers,
    )
    counts = [ClassificationError(wrong, name) for wrong, name in ERRORS.items()]
    return DataParallelInferenceRunner(flow, counts, options.towers)


def train(recipe, options):
    # First of all: where there are several processes, it knows how many they are.
    trainer = TRAINERS[options.trainer](options.towers, precision=options.precision)
    if isinstance(trainer, DistributedTrainer) and trainer.serves:
        return trainer.join()
    processes = trainer.peers.size if trainer.peers else 1
    if options.batch % (processes * options.towers):
        towers = f"{processes} processes of {options.towers} towers"
        raise ConfigError(f"a batch of {options.batch} images cannot be divided among {towers}")
    parameters, multiply_adds = cost_of(recipe.make_network(options), options.size)
    print(f"{parameters / 1e6:.2f} million parameters, {multiply_adds / 1e6:.0f} million multiply-adds an image")
    # Each process takes its share of one order, which they have to have in common.
    seed = int(np.random.default_rng(options.seed).integers(2**32))
    seed = trainer.peers.broadcast("the seed of the order", seed) if trainer.peers else seed
    flow, steps_per_epoch = training_data(options, processes, seed)
    callbacks = [
        ModelSaver(max_to_keep=5),
        HyperParamSetterWithFunc("learning_rate", lambda epoch, _: recipe.learning_rate(epoch + 1, options.batch)),
        ThroughputTracker(options.batch),
        EstimatedTimeLeft(),
    ]
    if not options.fake:
        callbacks += [evaluation(options, processes), MinSaver("val-error-top1")]
    config = (AutoResumeTrainConfig if options.resume else TrainConfig)(
        model=recipe.make_model(options),
        # Each tower takes a batch of its own from a queue that a thread fills.
        dataflow=flow,
        callbacks=callbacks,
        steps_per_epoch=steps_per_epoch,
        max_epoch=options.epochs,
        session_init=SmartInit(options.load),
    )
    launch_train_with_config(config, trainer)
    if not trainer.is_chief:
        return None
    last = JSONWriter.load_existing_json()[-1]
    print(f"Throughput: {last.get('Throughput (samples/sec)', float('nan')):.1f} images a second")
    return print_errors(last)


def evaluate(recipe, options):
    """Run nothing but the evaluation, as the one epoch of a training whose steps do nothing."""
    config = TrainConfig(
        model=recipe.make_model(options),
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


def describe(recipe, options):
    """Return what is predicted with, and by which names."""
    return PredictConfig(
        model=recipe.make_model(options),
        session_init=SmartInit(options.load),
        input_names=["image"],
        output_names=["probabilities"],
        precision=options.precision,
    )


def export(recipe, options):
    """Write a SavedModel that takes bytes of images, [B, S, S, 3] in blue, green and red, and serves probabilities."""
    ModelExporter(describe(recipe, options)).export_serving(options.export)
    print(f"Exported to {options.export}")


def predict(recipe, options):
    """Print the first guesses for images."""
    predictor = OfflinePredictor(describe(recipe, options))
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


def make_parser(recipe, doc):
    """Return the parser of what all scripts have in common.

    Args:
        recipe: the `Recipe`.
        doc: the docstring of the script.
    """
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    add = parser.add_argument
    add("--data", metavar="DIR", help="where `train` and `val` are")
    add("--meta", metavar="DIR", help="where synsets.txt, train.txt and val.txt are, if not in their usual place")
    add("--fake", action="store_true", help="train on random images that cost nothing, to see how fast it is")
    add("--eval", action="store_true", help="only evaluate the model of --load")
    add("--predict", nargs="+", metavar="IMAGE", help="only tell what the model of --load takes images for")
    add("--export", metavar="DIR", help="only write the model of --load for serving; the directory must be new")
    add("--load", metavar="CHECKPOINT", help="a checkpoint, a directory of checkpoints, or an .npz file")
    add("--resume", action="store_true", help="go on from the last checkpoint in the log directory")
    add("--logdir", default="train_log/imagenet", help="one that exists is moved aside, or resumed from")
    add("--trainer", default="replicated", choices=TRAINERS, help="those of a cluster are for several processes")
    add("--towers", type=int, default=1, help="how many, in each process (default: 1)")
    add("--batch", type=int, default=256, help="images a step, in all towers of all processes (default: 256)")
    add("--epochs", type=int, default=recipe.epochs, help=f"the last epoch (default: {recipe.epochs})")
    add("--steps-per-epoch", type=int, help="instead of what the number of images says")
    add("--precision", default="float32", choices=PRECISIONS, help="what the network computes in (default: float32)")
    add("--size", type=int, default=recipe.size, help=f"height and width of the images (default: {recipe.size})")
    add("--classes", type=int, default=1000, help="how many (default: 1000)")
    add("--workers", type=int, default=os.cpu_count(), help="processes that read and augment images; 0 for none")
    add("--seed", type=int, help="of weights, order and augmentation; without it each run differs")
    return parser


def check(parser, options):
    """Refuse what cannot work, before anything is done."""
    if not (options.fake or options.data or options.predict or options.export):
        parser.error("give the directory of the images with --data, or --fake")
    if (options.eval or options.predict or options.export) and not options.load:
        parser.error("--eval, --predict and --export need a model: give it with --load")
    if options.eval and not options.data:
        parser.error("--eval needs images: give their directory with --data")
    if options.towers < 1 or options.batch < 1 or options.batch % options.towers:
        parser.error(f"a batch of {options.batch} images cannot be divided among {options.towers} towers")
    if options.trainer == "simple" and options.towers > 1:
        parser.error(f"the simple trainer has one tower, not {options.towers}")


def run(recipe, parser, options):
    """Do what the options say.

    Args:
        recipe: the `Recipe`.
        parser: tells what cannot work.
        options: what `make_parser` and the script added to it understood.
    """
    check(parser, options)
    recipe = replace(recipe, epochs=options.epochs)
    if options.predict:
        return predict(recipe, options)
    if options.export:
        return export(recipe, options)
    # What an evaluation writes lies beside the training, and takes nobody's place.
    directory = os.path.join(options.logdir, "eval") if options.eval else options.logdir
    logger.set_logger_dir(directory, action="k" if options.resume or options.eval else "b")
    fix_rng_seed(options.seed)
    with tf.Graph().as_default():
        if options.seed is not None:
            tf.set_random_seed(options.seed)
        return evaluate(recipe, options) if options.eval else train(recipe, options)
