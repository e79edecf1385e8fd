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


def wholly_frozen():
    made = model()
    made.trainable = False
    return made


def dataset():
    with eager_mode():
        return tf2.data.Dataset.from_tensor_slices(({"x": X}, {"y": Y})).batch(5)


def batches():
    yield X[:5], Y[:5]


FORMS = {
    "a functional model": lambda: fit(model(), (X, Y)),
    "a subclassed model without `get_config`": lambda: fit(subclassed(), (X, Y)),
    "`trainable = False` of some layers": lambda: fit(partly_frozen(), (X, Y)),
    "`trainable = False` of the whole model": lambda: fit(wholly_frozen(), (X, Y)),
    "own `compute_loss`": lambda: fit(model(OwnLoss), (X, Y)),
    "own `compute_metrics`": lambda: fit(model(OwnMetrics), (X, Y), validation_data=(X, Y)),
    "own `train_step`": lambda: fit(model(OwnStep), (X, Y)),
    "own `test_step`": lambda: fit(model(OwnTest), (X, Y)),
    "`(x, y, sample_weight)`": lambda: fit(model(), (X, Y, np.ones(20))),
    "dicts of arrays": lambda: fit(model(), ({"x": X}, {"y": Y})),
    "a `tf.data.Dataset` of dicts": lambda: fit(model(), dataset()),
    "a generator function of batches": lambda: fit(model(), batches, steps_per_epoch=2),
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


@pytest.mark.parametrize(("name", "outcome"), TABLE, ids=[name for name, _ in TABLE])
def test_a_form_works_or_is_refused(name, outcome):
    with eager_mode():
        attempt = FORMS[name]
    if outcome == "refused":
        with pytest.raises(TpackError, match="expected|use "):
            attempt()
    else:
        assert np.isfinite(attempt().history[-1]["total_loss"])
