"""What works and what is refused of Keras, as the table of docs/keras.md says."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf2

from tests.helpers.source import ROOT
from tpack.compat.runtime import eager_mode
from tpack.errors import TpackError
from tpack.keras.training import fit

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(20, 4)).astype("float32"), rng.integers(0, 3, 20).astype("int32")
LOSS = "sparse_categorical_crossentropy"


def model(cls=keras.Model, loss=LOSS, **compiling):
    inputs = keras.Input([4], name="x")
    made = cls(inputs, keras.layers.Dense(3, "softmax", name="y")(inputs))
    made.compile(compiling.pop("optimizer", "sgd"), loss, **compiling)
    return made


class Subclassed(keras.Model):
    def __init__(self, units):
        super().__init__()
        self.last = keras.layers.Dense(units(), "softmax")

    def call(self, x):
        return self.last(x)


class OwnLoss(keras.Model):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return keras.ops.mean(y_pred)


class OwnMetrics(keras.Model):
    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return {"largest": keras.ops.max(y_pred)}


class OwnStep(keras.Model):
    def train_step(self, data):
        return {}


OwnTest = type("OwnTest", (keras.Model,), {"test_step": lambda self, data: {}})


def subclassed():
    made = Subclassed(lambda: 3)
    made.compile("sgd", LOSS)
    return made


def partly_frozen():
    inputs = keras.Input([4])
    base = keras.Sequential([keras.Input([4]), keras.layers.Dense(4)])
    base.trainable = False
    made = keras.Model(inputs, keras.layers.Dense(3, "softmax")(base(inputs)))
    made.compile("sgd", LOSS)
    return made


def siamese():
    """Return a model of two inputs that share an encoder, with two outputs."""
    encoder = keras.Sequential([keras.Input([4]), keras.layers.Dense(2)])
    one, two = keras.Input([4]), keras.Input([4])
    codes = keras.layers.concatenate([encoder(one), encoder(two)])
    outputs = [keras.layers.Dense(3, "softmax", name="cls")(codes), keras.layers.Dense(4, name="again")(codes)]
    made = keras.Model([one, two], outputs)
    made.compile("sgd", [LOSS, "mse"])
    return made


class Adds(keras.layers.Layer):
    def __init__(self, reduce):
        super().__init__()
        self.reduce = reduce

    def call(self, x):
        self.add_loss(self.reduce(keras.ops.square(x)))
        return x


def adding(reduce):
    made = keras.Sequential([keras.Input([4]), Adds(reduce), keras.layers.Dense(3, "softmax")])
    made.compile("sgd", LOSS)
    return made


class Counts(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.mean = keras.metrics.Mean(name="mean")

    def call(self, x):
        self.mean.update_state(x)
        return x


def counting():
    made = keras.Sequential([keras.Input([4]), Counts(), keras.layers.Dense(3, "softmax")])
    made.compile("sgd", LOSS)
    return made


def regularized():
    layer = keras.layers.Dense(3, "softmax", activity_regularizer="l2")
    made = keras.Sequential([keras.Input([4]), layer])
    made.compile("sgd", LOSS)
    return made


def pictures():
    layers = [keras.layers.Conv1D(2, 2), keras.layers.Flatten(), keras.layers.Dense(3, "softmax")]
    made = keras.Sequential([keras.Input([4, 1]), *layers])
    made.compile("sgd", LOSS)
    return made


def wholly_frozen():
    made = model()
    made.trainable = False
    return made


def dataset():
    with eager_mode():
        return tf2.data.Dataset.from_tensor_slices(({"x": X}, {"y": Y})).batch(5)


def twice(fitted):
    fit(fitted, (X, Y))
    return fit(fitted, (X, Y))


def batches():
    yield X[:5], Y[:5]


FORMS = {
    "a functional model": lambda: fit(model(), (X, Y)),
    "a subclassed model without `get_config`": lambda: fit(subclassed(), (X, Y)),
    "`trainable = False` of some layers": lambda: fit(partly_frozen(), (X, Y)),
    "`trainable = False` of the whole model": lambda: fit(wholly_frozen(), (X, Y)),
    "several inputs and outputs, and layers that are used twice": lambda: fit(siamese(), ([X, X], [Y, X])),
    "`add_loss` of a mean, on several towers": lambda: fit(adding(keras.ops.mean), (X, Y), towers=2),
    "`add_loss` of a sum, on one tower": lambda: fit(adding(keras.ops.sum), (X, Y)),
    "`add_loss` of a sum, on several towers": lambda: fit(adding(keras.ops.sum), (X, Y), towers=2),
    "an `activity_regularizer`, on several towers": lambda: fit(regularized(), (X, Y), towers=2),
    "own `compute_loss`": lambda: fit(model(OwnLoss), (X, Y)),
    "own `compute_metrics`": lambda: fit(model(OwnMetrics), (X, Y), validation_data=(X, Y)),
    "a metric that is updated in `call`": lambda: fit(counting(), (X, Y)),
    "arrays without the last dimension of 1 of an input": lambda: fit(pictures(), (X, Y)),
    "own `train_step`": lambda: fit(model(OwnStep), (X, Y)),
    "own `test_step`": lambda: fit(model(OwnTest), (X, Y)),
    "`(x, y, sample_weight)`": lambda: fit(model(), (X, Y, np.ones(20))),
    "dicts of arrays": lambda: fit(model(), ({"x": X}, {"y": Y})),
    "a `tf.data.Dataset` of dicts": lambda: fit(model(), dataset()),
    "a `tf.data.Dataset` of unknown size": lambda: fit(model(), dataset().unbatch().batch(7)),
    "a `tf.data.Dataset` of unknown size for validation": lambda: fit(
        model(), (X, Y), validation_data=dataset().unbatch().batch(7), validation_steps=2
    ),
    "a generator function of batches": lambda: fit(model(), batches, steps_per_epoch=2),
    "a second `fit` of one model": lambda: twice(model()),
    "`steps_per_epoch` beyond the end of the data": lambda: fit(model(), (X, Y), steps_per_epoch=9),
    "`fit(model, x, y)`": lambda: fit(model(), X, Y),
    "`class_weight`": lambda: fit(model(), (X, Y), class_weight={0: 2.0}),
    "`class_weight` of a dataset": lambda: fit(model(), dataset(), class_weight={0: 2.0}),
    "`validation_split`": lambda: fit(model(), (X, Y), validation_split=0.5),
    "`MeanIoU`, `AUC` and other metrics with a state": lambda: fit(
        model(metrics=[keras.metrics.MeanIoU(3, sparse_y_pred=False)]), (X, Y)
    ),
    "callbacks of Keras": lambda: fit(model(), (X, Y), callbacks=[keras.callbacks.EarlyStopping()]),
    "`Adagrad` and other optimizers than Adam, AdamW, Lion, RMSprop, SGD": lambda: fit(
        model(optimizer="adagrad"), (X, Y)
    ),
    'a loss with `reduction="sum"`': lambda: fit(
        model(loss=keras.losses.SparseCategoricalCrossentropy(reduction="sum")), (X, Y)
    ),
}
TABLE = re.findall(
    r"^\| (.*?) \| (works|refused)[^|]*\|$", (ROOT / "docs" / "keras.md").read_text(encoding="utf-8"), re.MULTILINE
)


def test_the_table_has_all_forms():
    assert [name for name, _ in TABLE] == list(FORMS)


def adds_activities():
    """Return whether this Keras sums an activity regularizer over the examples; 3.15 divides by their number."""
    with eager_mode():
        layer = keras.layers.Dense(3, activity_regularizer="l2")
        losses = [float((layer(np.ones([rows, 4])), layer.losses[0])[1]) for rows in (1, 2)]
    return losses[1] > 1.5 * losses[0]


@pytest.mark.parametrize(("name", "outcome"), TABLE, ids=[name for name, _ in TABLE])
def test_a_form_works_or_is_refused(name, outcome):
    if name == "an `activity_regularizer`, on several towers" and adds_activities():
        outcome = "refused"
    with eager_mode():
        attempt = FORMS[name]
    if outcome == "refused":
        with pytest.raises(TpackError, match="expected|use "):
            attempt()
    else:
        assert np.isfinite(attempt().history[-1]["total_loss"])
