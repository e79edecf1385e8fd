"""Train Faster R-CNN with a pyramid of features on images with boxes, in the format of COCO.

    python examples/detection/faster_rcnn.py                                       # made shapes, one tower
    python examples/detection/faster_rcnn.py --towers 2 --epochs 5
    python examples/detection/faster_rcnn.py --eval --load train_log/detection
    python examples/detection/faster_rcnn.py --load train_log/detection --predict a.png b.png --out found
    python examples/detection/faster_rcnn.py --data /data/coco --parts train2017 val2017 --size 800 --towers 8

It shows inputs without a batch dimension, each of its own size, one to a tower; what is chosen at random in the graph,
decided by the data; and an inferencer that sees the whole validation set at once. Of 1000 made pictures it learns in 6
epochs, about 7 minutes of processor time, to find circles, squares and triangles on 200 others with AP50 above 0.9 and
AP above 0.7.
"""

import argparse
import os

import cv2
import made_shapes
import tensorflow.compat.v1 as tf
from coco_ap import AveragePrecision, Found, average_precision
from detection_data import evaluation_flow, read_coco, training_flow
from detection_model import Detector

from tpack import (
    AutoResumeTrainConfig,
    DataParallelInferenceRunner,
    JSONWriter,
    MaxSaver,
    ModelSaver,
    OfflinePredictor,
    PredictConfig,
    ScheduledHyperParamSetter,
    SimpleTrainer,
    SmartInit,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    fix_rng_seed,
    launch_train_with_config,
    logger,
)
from tpack.dataflow.images import read_image
from tpack.schedules import Cosine, WarmUp
from tpack.utils.viz import draw_boxes

MADE = "train_log/made_shapes"

TRAINERS = {
    "simple": lambda towers: SimpleTrainer(),
    "replicated": SyncMultiGPUTrainerReplicated,
    "parameter-server": SyncMultiGPUTrainerParameterServer,
}


def evaluation(options):
    """Return the callback that finds what is on all validation images, and computes the averages."""
    objects, names = read_coco(options.data, options.parts[1])
    averages = AveragePrecision(objects, len(names))
    return DataParallelInferenceRunner(evaluation_flow(objects), [averages], options.towers)


def make_model(options, names):
    return Detector(len(names), options.size, width=options.width, blocks=options.blocks)


def train(options):
    """Train, and return the statistics of the last epoch."""
    logger.set_logger_dir(options.logdir, action="k" if options.resume else "b")
    fix_rng_seed(options.seed)
    with tf.Graph().as_default():
        tf.set_random_seed(options.seed)
        train_in_graph(options)
    return JSONWriter.load_existing_json()[-1]


def train_in_graph(options):
    objects, names = read_coco(options.data, options.parts[0])
    flow = training_flow(objects)
    steps = options.steps or len(flow) // options.towers
    rate = WarmUp(Cosine(1e-3, 0, steps * options.epochs), min(100, steps))
    config = (AutoResumeTrainConfig if options.resume else TrainConfig)(
        model=make_model(options, names),
        # Each tower takes an image from a queue that a thread fills.
        dataflow=flow,
        callbacks=[
            ModelSaver(max_to_keep=2),
            evaluation(options),
            MaxSaver("AP"),
            ScheduledHyperParamSetter("learning_rate", rate, step_based=True),
        ],
        steps_per_epoch=steps,
        max_epoch=options.epochs,
        session_init=SmartInit(options.load),
    )
    launch_train_with_config(config, TRAINERS[options.trainer](options.towers))


def make_finder(options, names):
    """Return a function of an image that returns what is found on it: boxes, scores and labels."""
    return OfflinePredictor(
        PredictConfig(
            model=make_model(options, names),
            session_init=SmartInit(options.load),
            input_names=["image"],
            output_names=["found_boxes", "found_scores", "found_labels"],
        )
    )


def evaluate(options):
    """Return the averages of the model on all validation images."""
    objects, names = read_coco(options.data, options.parts[1])
    find = make_finder(options, names)
    found = {one.number: Found(*find(read_image(one.path))) for one in objects}
    return average_precision(objects, found, len(names))


def predict(options):
    """Tell what is on images, and with --out draw it."""
    names = read_coco(options.data, options.parts[1])[1]
    find = make_finder(options, names)
    for path in options.predict:
        image = read_image(path)
        boxes, scores, labels = find(image)
        sure = scores >= options.least_score
        texts = [f"{names[label - 1]} {score:.2f}" for label, score in zip(labels[sure], scores[sure], strict=True)]
        places = boxes[sure].round().astype(int).tolist()
        print(f"{path}: " + ", ".join(f"{text} at {place}" for text, place in zip(texts, places, strict=True)))
        if options.out:
            os.makedirs(options.out, exist_ok=True)
            cv2.imwrite(os.path.join(options.out, os.path.basename(path)), draw_boxes(image, boxes[sure], texts))


def make_parser():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--data", metavar="DIR", help="a set in the format of COCO; without it, made shapes")
    add("--parts", nargs=2, default=["train", "val"], metavar=("TRAIN", "VAL"), help="of the set (default: train val)")
    add("--size", type=int, help="of the shorter side that images are brought to (default: as they are)")
    add("--width", type=int, default=16, help="channels to begin with, a multiple of 16 (default: 16)")
    add("--blocks", type=int, nargs=4, default=[1, 1, 1, 1], help="of each scale (default: 1 1 1 1)")
    add("--trainer", choices=TRAINERS, default="replicated")
    add("--towers", type=int, default=1, help="how many, each with an image at a time (default: 1)")
    add("--epochs", type=int, default=6, help="the last epoch (default: 6)")
    add("--steps", type=int, help="in each epoch (default: one pass over the data)")
    add("--load", metavar="CHECKPOINT", help="a checkpoint, or a directory of checkpoints")
    add("--resume", action="store_true", help="go on from the last checkpoint in the log directory")
    add("--eval", action="store_true", help="only evaluate the model of --load")
    add("--predict", nargs="+", metavar="IMAGE", help="only tell what the model of --load finds on images")
    add("--out", metavar="DIR", help="draw what is found, too")
    add("--least-score", type=float, default=0.5, help="of what is told to be on an image (default: 0.5)")
    add("--logdir", default="train_log/detection", help="one that exists is moved aside, or resumed from")
    add("--seed", type=int, default=0, help="of weights, order and what is chosen at random (default: 0)")
    return parser


def main(argv=None):
    parser = make_parser()
    options = parser.parse_args(argv)
    if (options.eval or options.predict) and not options.load:
        parser.error("--eval and --predict need a model: give it with --load")
    if options.width < 16 or options.width % 16:
        parser.error(
            f"--width {options.width}: expected a multiple of 16, such as 32, since channels are normalised in groups"
        )
    if options.towers < 1 or options.towers > 1 and options.trainer == "simple":
        parser.error(f"the trainer {options.trainer} cannot have {options.towers} towers")
    if options.data is None:
        options.data = MADE
        if not os.path.exists(os.path.join(MADE, "annotations", "instances_val.json")):
            made_shapes.write(MADE)
    if options.predict:
        return predict(options)
    averages = evaluate(options) if options.eval else train(options)
    print(", ".join(f"{name}: {averages[name]:.3f}" for name in ("AP", "AP75", "AP50")))
    return None


if __name__ == "__main__":
    main()
