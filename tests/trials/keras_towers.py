"""Whether K towers train Keras models as Keras's ``fit`` does with the whole batch: MobileNetV2 and a transformer.

    python -m tests.trials.keras_towers [--floatx float64]

Prints, for each model and optimizer, by how much weights differ after a few steps, over how far they went from where
they began. Beside it stands by how much Keras differs from itself, with the examples of each batch in another order:
that is rounding alone, as far as a few steps of the model magnify it. With ``--floatx float64`` all is computed with 53
bits, and what is left where it was rounding is as much smaller.
"""

import argparse

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.runtime import eager_mode
from tpack.dataflow.sources import DataFromList
from tpack.keras.model import KerasModel
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SyncMultiGPUTrainerReplicated

TOWERS, STEPS, ROWS, CLASSES = 2, 2, 16, 5
LOSS = "sparse_categorical_crossentropy"
# Numbers that are the same in 24 bits, in which TensorFlow's optimizers keep theirs, as in more.
ADAM = {"learning_rate": 2**-10, "beta_1": 7 / 8, "beta_2": 1 - 2**-10, "epsilon": 2**-10}
OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(2**-7, momentum=7 / 8),
    "Adam": lambda: keras.optimizers.Adam(**ADAM),
    "AdamW": lambda: keras.optimizers.AdamW(weight_decay=1 / 8, **ADAM),
}


def mobilenet():
    """Return MobileNetV2 on images of 32 x 32, normalised by the batches of all towers, and examples."""
    model = keras.applications.MobileNetV2([32, 32, 3], alpha=0.35, weights=None, classes=CLASSES)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.synchronized = True
    return model, np.random.default_rng(0).normal(size=(STEPS * ROWS, 32, 32, 3)).astype(keras.config.floatx())


def transformer():
    """Return an encoder of two blocks on 16 words, and examples."""
    words = keras.Input([16], dtype="int32", name="words")
    x = keras.layers.Embedding(50, 32)(words)
    for _ in range(2):
        y = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.MultiHeadAttention(4, 8)(y, y)
        y = keras.layers.Dense(64, activation="gelu")(keras.layers.LayerNormalization()(x))
        x = x + keras.layers.Dense(32)(y)
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(words, keras.layers.Dense(CLASSES, activation="softmax")(x))
    return model, np.random.default_rng(0).integers(0, 50, (STEPS * ROWS, 16)).astype("int32")


def by_towers(model, optimizer, x, y):
    """Return the weights after an epoch on towers."""
    desc = KerasModel(model, optimizer=optimizer, loss=LOSS)
    parts = zip(np.split(x, STEPS * TOWERS), np.split(y, STEPS * TOWERS), strict=True)
    flow = DataFromList([list(part) for part in parts], shuffle=False)
    with tf.Graph().as_default():
        config = TrainConfig(model=desc, dataflow=flow, steps_per_epoch=STEPS, max_epoch=1, monitors=[])
        launch_train_with_config(config, SyncMultiGPUTrainerReplicated(TOWERS))
    return desc.trained_weights()


def by_keras(model, optimizer, x, y):
    """Return the weights after an epoch of Keras."""
    with eager_mode():
        model.compile(optimizer, LOSS)
        model.fit(x, y, batch_size=ROWS, epochs=1, shuffle=False, verbose=0)
        return model.get_weights()


def differences(model, x, make_optimizer):
    """Return the largest difference of a weight over the largest way of one: of towers, and of Keras from itself."""
    y = np.random.default_rng(1).integers(0, CLASSES, len(x)).astype("int32")
    order = np.concatenate([step * ROWS + np.random.default_rng(2).permutation(ROWS) for step in range(STEPS)])
    with eager_mode():
        begin = model.get_weights()
    weights = []
    for train, rows in ((by_keras, slice(None)), (by_towers, slice(None)), (by_keras, order)):
        with eager_mode():
            model.set_weights(begin)
        weights.append(train(model, make_optimizer(), x[rows], y[rows]))
    with eager_mode():
        model.set_weights(begin)
    way, towers, other = (_largest(weights[0], each) for each in (begin, *weights[1:]))
    return towers / way, other / way


def _largest(ours, theirs):
    return max(np.abs(a - b).max() for a, b in zip(ours, theirs, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--floatx", choices=["float32", "float64"], default="float32")
    keras.config.set_floatx(parser.parse_args().floatx)
    print(f"{'':12} {'':6} towers   Keras, other order")
    for make in (transformer, mobilenet):
        with eager_mode():
            keras.utils.set_random_seed(0)
            model, x = make()
        for name, make_optimizer in OPTIMIZERS.items():
            ours, theirs = differences(model, x, make_optimizer)
            print(f"{make.__name__:12} {name:6} {ours:.1e}  {theirs:.1e}", flush=True)


if __name__ == "__main__":
    main()
