"""`tpack.fit` beside Keras's ``fit`` in 53 bits, on one tower and three, with a smaller last batch."""

import keras
import numpy as np
import pytest
import tensorflow as tf2

from tpack.compat.runtime import eager_mode
from tpack.errors import ConfigError
from tpack.keras.model import KerasModel
from tpack.keras.training import fit

N, ROWS = 50, 12
rng = np.random.default_rng(0)
A, B = rng.normal(size=(N, 4)), rng.normal(size=(N, 3))
CLASSES = rng.integers(0, 3, N).astype("int32")
BITS = rng.integers(0, 2, (N, 1)).astype("int32")
VALUES = rng.normal(size=(N, 2))
WEIGHT, OTHER = rng.uniform(0.1, 2.0, N), rng.uniform(0.1, 2.0, N)


@pytest.fixture(autouse=True)
def wide():
    """Compute in 53 bits."""
    policy = keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy(policy)


def normal(seed):
    return keras.initializers.RandomNormal(stddev=0.5, seed=seed)


def dense(units, seed, **options):
    return keras.layers.Dense(units, kernel_initializer=normal(seed), **options)


def one_output(last="softmax", units=3):
    inputs = keras.Input([4], name="a")
    hidden = dense(5, 1, activation="tanh", kernel_regularizer="l2")(inputs)
    return keras.Model(inputs, dense(units, 2, activation=last)(hidden))


def two_outputs(kind=list, cls=keras.Model):
    a, b = keras.Input([4], name="a"), keras.Input([3], name="b")
    hidden = dense(5, 1, activation="tanh")(keras.layers.Concatenate()([a, b]))
    outputs = [dense(3, 2, activation="softmax", name="cls")(hidden), dense(2, 3, name="reg")(hidden)]
    inputs = [a, b] if kind is list else {"a": a, "b": b}
    return cls(inputs, outputs if kind is list else dict(zip(("cls", "reg"), outputs, strict=True)))


LOSSES = {"cls": "sparse_categorical_crossentropy", "reg": "mse"}
METRICS = {"cls": ["accuracy"], "reg": ["mae", keras.losses.mean_squared_error]}


def both(make, compiling, data, towers, *, epochs=2, **options):
    """Return a model's weights and last statistics by Keras and by tpack."""
    options = {"batch_size": ROWS, "shuffle": False, **options}
    with eager_mode():
        model, ours = make(), make()
        for each in (model, ours):
            each.compile(optimizer=keras.optimizers.SGD(2**-4, momentum=7 / 8), **compiling())
        x, y, *weight = data
        history = model.fit(x, y, verbose=0, epochs=epochs, **options, **_weight(weight)).history
    trainer = fit(ours, data, towers=towers, epochs=epochs, verbose=0, monitors=[], **options)
    with eager_mode():
        pairs = list(zip(model.get_weights(), ours.get_weights(), strict=True))
    return pairs, {_ours(name): values[-1] for name, values in history.items()}, trainer.history[-1]


def _weight(weight):
    return {"sample_weight": weight[0]} if weight else {}


def _ours(name):
    prefix, name = ("validation_", name[4:]) if name.startswith("val_") else ("", name)
    return prefix + ("total_loss" if name == "loss" else name)


def assert_equal(pairs, wanted, got):
    for theirs, ours in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)
    if keras.__version__.startswith("3.16.0.dev"):
        # It averages the losses of single outputs in training over batches in another way: docs/versions.md.
        wanted = {name: value for name, value in wanted.items() if name not in ("cls_loss", "reg_loss")}
    for name, value in wanted.items():
        assert got[name] == pytest.approx(value, rel=1e-11, abs=1e-13), name


def compiled_for_two():
    return {
        "loss": LOSSES,
        "loss_weights": {"cls": 0.25, "reg": 1.5},
        "metrics": METRICS,
        "weighted_metrics": {"cls": ["accuracy", keras.metrics.SparseCategoricalCrossentropy(name="ce")]},
    }


CASES = {
    "lists": (list, ([A, B], [CLASSES, VALUES], [WEIGHT, OTHER])),
    "dict of targets": (list, ([A, B], {"cls": CLASSES, "reg": VALUES})),
    "dicts of inputs and targets": (list, ({"a": A, "b": B}, {"cls": CLASSES, "reg": VALUES})),
    "dicts": (dict, ({"a": A, "b": B}, {"cls": CLASSES, "reg": VALUES}, {"cls": WEIGHT, "reg": OTHER})),
}


@pytest.mark.parametrize("towers", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_several_inputs_and_outputs(case, towers):
    kind, data = CASES[case]
    found = both(lambda: two_outputs(kind), compiled_for_two, data, towers, validation_split=0.2)
    assert_equal(*found)
    assert {"cls_loss", "reg_loss", "cls_accuracy", "reg_mean_squared_error", "validation_cls_loss"} <= set(found[2])


@pytest.mark.parametrize("towers", [1, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"class_weight": {0: 0.5, 2: 3.0}},
        {"sample_weight": WEIGHT, "validation_data": (A[:17], CLASSES[:17], OTHER[:17]), "validation_batch_size": 5},
        {"steps_per_epoch": 2, "validation_data": (A[:20], CLASSES[:20]), "validation_steps": 1},
        {"initial_epoch": 1, "epochs": 3, "batch_size": 64},
    ],
    ids=lambda options: next(iter(options)),
)
def test_arguments_of_fit(options, towers):
    def compiling():
        return {
            "loss": "sparse_categorical_crossentropy",
            "metrics": ["accuracy", keras.metrics.SparseCategoricalCrossentropy(name="ce")],
            "weighted_metrics": ["accuracy"],
        }

    assert_equal(*both(one_output, compiling, (A, CLASSES), towers, **options))


@pytest.mark.parametrize("towers", [1, 3])
def test_metrics_with_a_state_are_those_of_training_too(towers):
    def compiling():
        metrics = [keras.metrics.AUC(name="auc"), keras.metrics.F1Score(name="f1"), keras.metrics.Precision(name="p")]
        return {"loss": keras.losses.BinaryCrossentropy(), "metrics": metrics, "weighted_metrics": ["accuracy"]}

    data = (A, BITS.astype("float64"), WEIGHT)
    found = both(lambda: one_output("sigmoid", 1), compiling, data, towers, validation_split=0.3)
    assert_equal(*found)
    assert {"auc", "validation_auc", "p", "f1"} <= set(found[1])


class Own(keras.Model):
    """Has a cost, a metric that the cost updates, and a metric of its own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.extra = keras.metrics.Mean(name="extra")
        self.largest = keras.metrics.MeanAbsoluteError(name="largest")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        added = keras.ops.mean(keras.ops.square(y_pred))
        self.extra.update_state(added)
        return loss + 3.0 * added + (100.0 if training else 200.0)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        results = super().compute_metrics(x, y, y_pred, sample_weight)
        self.largest.update_state(keras.ops.max(y_pred, axis=-1), keras.ops.zeros_like(y_pred[:, 0]))
        results["largest"] = self.largest.result()
        return results


@pytest.mark.parametrize("towers", [1, 3])
def test_own_compute_loss_and_compute_metrics_count(towers):
    def make():
        inputs = keras.Input([4])
        return Own(inputs, dense(3, 2, activation="softmax")(dense(5, 1, kernel_regularizer="l2")(inputs)))

    def compiling():
        return {"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]}

    # Its own metric is a mean over steps, in which each tower counts as one: with even towers it is Keras's.
    rows = slice(0, 48)
    found = both(make, compiling, (A[rows], CLASSES[rows]), towers, validation_split=0.25)
    assert_equal(*found)
    assert found[2]["total_loss"] > 100
    assert found[2]["validation_total_loss"] > 200
    assert {"extra", "largest", "accuracy", "validation_largest"} <= set(found[2])


def test_batches_of_a_dataset_and_of_a_py_dataset_are_nested_too():
    def dataset():
        with eager_mode():
            points = ({"a": A, "b": B}, {"cls": CLASSES, "reg": VALUES})
            return tf2.data.Dataset.from_tensor_slices(points).batch(ROWS)

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 5

        def __getitem__(self, k):
            rows = slice(k * ROWS, (k + 1) * ROWS)
            return {"a": A[rows], "b": B[rows]}, {"cls": CLASSES[rows], "reg": VALUES[rows]}

    with eager_mode():
        model = two_outputs(dict)
        model.compile(keras.optimizers.SGD(2**-4), **compiled_for_two())
        begin = model.get_weights()
        wanted = model.fit(dataset(), epochs=2, verbose=0, shuffle=False).history
        weights = model.get_weights()
    for data in (dataset(), Batches()):
        with eager_mode():
            model.set_weights(begin)
        trainer = fit(model, data, epochs=2, verbose=0, monitors=[], validation_data=dataset())
        with eager_mode():
            pairs = list(zip(weights, model.get_weights(), strict=True))
        assert_equal(pairs, {_ours(name): values[-1] for name, values in wanted.items()}, trainer.history[-1])
        assert trainer.history[-1]["validation_cls_loss"] > 0


def test_own_steps_are_refused_with_what_to_write():
    class Steps(keras.Model):
        def train_step(self, data):
            raise AssertionError

    inputs = keras.Input([4])
    model = Steps(inputs, keras.layers.Dense(3)(inputs))
    model.compile("sgd", "mse")
    for attempt in (lambda: fit(model, (A, VALUES)), lambda: KerasModel(model)):
        with pytest.raises(ConfigError, match=r"Steps with its own train_step, .* use compute_loss\(self, x, y"):
            attempt()


def test_shuffled_rows_are_each_seen_once_an_epoch():
    model = one_output()
    model.compile(keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy")
    with eager_mode():
        wanted = model.evaluate(A, CLASSES, verbose=0)
    trainer = fit(model, (A, CLASSES), towers=3, epochs=2, batch_size=ROWS, verbose=0, monitors=[])
    assert [row["total_loss"] for row in trainer.history] == pytest.approx([wanted] * 2, rel=1e-12)
