"""Run exported models with plain TensorFlow, in a process without tpack: ``python load_exported.py DIRECTORY``.

The directory has ``inputs.npz`` (x), ``saved`` (a SavedModel) and ``frozen.pb``. What the models answer for x goes to
``outputs.npz``: ``v1`` and ``v2`` from the SavedModel by both of TensorFlow's loaders, ``frozen`` from the file.
"""

import os
import sys

import numpy as np
import tensorflow as tf


def main(directory):
    x = np.load(os.path.join(directory, "inputs.npz"))["x"]
    saved = os.path.join(directory, "saved")
    answers = {"v2": tf.saved_model.load(saved).signatures["serving_default"](image=tf.constant(x))["scores"].numpy()}
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        signature = v1.saved_model.load(session, ["serve"], saved).signature_def["prediction_pipeline"]
        answers["v1"] = session.run(signature.outputs["scores"].name, {signature.inputs["image"].name: x})
    with tf.Graph().as_default(), v1.Session() as session:
        with open(os.path.join(directory, "frozen.pb"), "rb") as file:
            graph_def = v1.GraphDef.FromString(file.read())
        (scores,) = tf.import_graph_def(graph_def, return_elements=["scores:0"], name="")
        answers["frozen"] = session.run(scores, {"image:0": x})
        answers["variables"] = len(v1.global_variables())
    assert not any(name.split(".")[0] == "tpack" for name in sys.modules)
    np.savez(os.path.join(directory, "outputs.npz"), **answers)


if __name__ == "__main__":
    main(sys.argv[1])
