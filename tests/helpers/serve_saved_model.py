"""Serve exported models with plain TensorFlow, in a process without tpack: ``python serve_saved_model.py DIRECTORY``.

The directory has ``image.npy`` and, in ``models``, directories of SavedModels. What the signatures answer to the images
goes to ``answers.npz``, as ``<model>/<signature>/<output>``. The default signature takes serialized examples.
"""

import os
import sys

import numpy as np
import tensorflow as tf


def example(image):
    message = tf.train.Example()
    message.features.feature["image"].float_list.value.extend(image)
    return message.SerializeToString()


def main(directory):
    images = np.load(os.path.join(directory, "image.npy"))
    answers = {}
    for name in os.listdir(os.path.join(directory, "models")):
        signatures = tf.saved_model.load(os.path.join(directory, "models", name)).signatures
        examples = tf.constant([example(image) for image in images])
        for key, inputs in {
            "serving_default": {"inputs": examples},
            "predict": {"examples": examples},
            "predict:raw": {"image": tf.constant(images)},
        }.items():
            for output, value in signatures[key](**inputs).items():
                array = value.numpy()
                # Strings come as Python objects, which numpy does not load.
                answers[f"{name}/{key}/{output}"] = array.astype("S") if array.dtype == object else array
    assert not any(name.split(".")[0] == "tpack" for name in sys.modules)
    np.savez(os.path.join(directory, "answers.npz"), **answers)


if __name__ == "__main__":
    main(sys.argv[1])
