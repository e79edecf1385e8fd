"""A trained model is used: predictors of all kinds, a data set in one go, exported files, weights in and out."""
# ruff: noqa: F403, F405

import argparse
import os

import numpy as np

from tests.helpers.examples import load_example
from tpack import *
from tpack.compat import tfv1 as tf
from tpack.dataflow.dataset import Digits
from tpack.tfutils import get_model_loader
from tpack.tfutils.export import ModelExporter
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.tfutils.sessinit import ChainInit, DictRestore, SaverRestore
from tpack.tfutils.varmanip import (
    SessionUpdate,
    dump_session_params,
    get_checkpoint_path,
    is_training_name,
    load_chkpt_vars,
    save_chkpt_vars,
)
from tpack.utils.fs import mkdir_p, recursive_walk
from tpack.utils.serialize import dumps, loads
from tpack.utils.stats import Accuracy
from tpack.utils.timer import print_total_timer, timed_operation, total_timer

mnist = load_example("mnist")


def test_digits():
    """Return the images and the labels of the test."""
    return tuple(np.stack(part) for part in zip(*Digits("test", shuffle=False), strict=True))


def train():
    """Train for a while, and write the weights as an npz file before the session ends."""
    config = mnist.get_config(max_epoch=2)
    npz = os.path.join(logger.get_logger_dir(), "params.npz")
    config.callbacks.append(CallbackFactory(trigger=lambda cb: dump_session_params(npz)))
    launch_train_with_config(config, SimpleTrainer())


def prediction_config(session_init, **options):
    return PredictConfig(
        model=mnist.Model(),
        session_init=session_init,
        session_creator=NewSessionCreator(config=get_default_sess_config(0.5)),
        input_names=["input"],
        output_names=["prob"],
        **options,
    )


def predict_all(session_init, images):
    """Return the probabilities from each kind of predictor."""
    results = {"offline": OfflinePredictor(prediction_config(session_init))(images)[0]}

    batches = BatchData(DataFromList([[image] for image in images], shuffle=False), 50, remainder=True)
    with timed_operation("the data set", log_start=True):
        dataset = SimpleDatasetPredictor(prediction_config(session_init), batches)
        results["dataset"] = np.concatenate([prob for (prob,) in dataset.get_result()])

    towers = MultiTowerOfflinePredictor(prediction_config(session_init), [0, 1])
    results["tower"] = towers.get_predictors()[1](images)[0]
    asynchronous = MultiThreadAsyncPredictor(towers.get_predictors(), batch_size=16)
    asynchronous.start()
    futures = [asynchronous.put_task([image]) for image in get_tqdm(images)]
    results["async"] = np.stack([future.result()[0] for future in futures])
    asynchronous.stop()

    labels = np.zeros([len(images)], "int32")
    feedfree = FeedfreePredictor(
        prediction_config(session_init), TensorInput(lambda: [tf.constant(images), tf.constant(labels)])
    )
    results["feedfree"] = feedfree()[0]
    feedfree.close()

    with total_timer("split over two"):
        results["split"] = DataParallelOfflinePredictor(prediction_config(session_init), 2)(images)[0]
    with_input = OfflinePredictor(prediction_config(session_init, return_input=True))
    results["with input"] = with_input(images)[1][0]
    print_total_timer()
    return results


def move_weights(checkpoint, directory):
    """Take a checkpoint apart: weights alone as npz, under a prefix, and as a checkpoint again."""
    mkdir_p(directory)
    weights = {name: v for name, v in load_chkpt_vars(checkpoint).items() if not is_training_name(name)}
    weights = {name: v for name, v in weights.items() if name.startswith(("conv", "fc"))}
    save_chkpt_vars(weights, os.path.join(directory, "weights.npz"))
    save_chkpt_vars(weights, os.path.join(directory, "weights.ckpt"))
    save_chkpt_vars(
        {f"backbone/{name}": value for name, value in weights.items()}, os.path.join(directory, "renamed.ckpt")
    )
    with open(os.path.join(directory, "weights.bin"), "wb") as file:
        file.write(dumps(weights))
    return weights


def loaders(directory, checkpoint):
    """Return ways to load the same weights."""
    with open(os.path.join(directory, "weights.bin"), "rb") as file:
        packed = loads(file.read())
    halves = [{name: v for name, v in packed.items() if name.startswith(part)} for part in ("conv", "fc")]
    return {
        "checkpoint": SmartInit(get_checkpoint_path(checkpoint)),
        "npz": SmartInit(os.path.join(directory, "weights.npz")),
        "model loader": get_model_loader(os.path.join(directory, "weights.ckpt")),
        "halves": ChainInit([DictRestore(half) for half in halves]),
        "prefix": _Renamed(os.path.join(directory, "renamed.ckpt")),
    }


class _Renamed(SessionInit):
    """Loads what was saved under a prefix, by hand."""

    def __init__(self, path):
        self.weights = {name[len("backbone/") :]: v for name, v in load_chkpt_vars(path).items()}

    def _run_init(self, sess):
        SessionUpdate(sess, tf.global_variables()).update(self.weights)


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--load")
    args = parser.parse_args(argv)
    logger.set_logger_dir("deployed", action="d")
    if args.load is None:
        return train()

    images, labels = test_digits()
    directory = os.path.join(logger.get_logger_dir(), "weights")
    move_weights(args.load, directory)
    ways = loaders(directory, args.load)
    results = predict_all(ways.pop("checkpoint"), images)
    for name, way in ways.items():
        results[name] = OfflinePredictor(prediction_config(way))(images)[0]

    accuracy = Accuracy()
    for probability, label in zip(results["offline"], labels, strict=True):
        accuracy.feed(float(probability.argmax() == label))
    logger.info(f"accuracy {accuracy.accuracy:.4f}")

    exporter = ModelExporter(prediction_config(SaverRestore(args.load)))
    exporter.export_serving(os.path.join(logger.get_logger_dir(), "serving", "1"))
    exporter.export_compact(os.path.join(logger.get_logger_dir(), "compact.pb"))
    return results, accuracy.accuracy, [os.path.relpath(path) for path in recursive_walk("deployed")]


if __name__ == "__main__":
    main()
