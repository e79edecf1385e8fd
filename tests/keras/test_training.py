import re

import keras
import pytest
import tensorflow as tf2

import tpack
import tpack.callbacks
from tests.helpers.keras_models import LOSS, ROWS, STEPS, X, Y, assert_close, fitted, made, shares
from tpack.compat.runtime import eager_mode
from tpack.errors import ConfigError, WrongTypeError
from tpack.keras.training import _COUNTERPARTS, _with_size, fit


def test_a_compiled_model_is_fit_in_one_line_and_evaluated_as_keras_does(tmp_path):
    with eager_mode():
        model = made()
        metrics = ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top2"), kept_metric()]
        model.compile("sgd", LOSS, metrics=metrics)
    trainer = fit(model, shares(2), towers=2, epochs=2, steps_per_epoch=STEPS, monitors=[], validation_data=(X, Y))
    weights, wanted = fitted("sgd", metrics=["accuracy", kept_metric()])
    assert_close(model.get_weights(), weights)
    got = trainer.history[-1]
    assert got["validation_total_loss"] == pytest.approx(wanted["loss"], rel=1e-4)
    assert got["validation_accuracy"] == pytest.approx(wanted["accuracy"])
    assert got["validation_kept"] == pytest.approx(wanted["kept"], rel=1e-4)
    trainer.export_keras(tmp_path / "model.keras")
    with eager_mode():
        loaded = keras.models.load_model(tmp_path / "model.keras").evaluate(X, Y, verbose=0, return_dict=True)
    assert loaded["loss"] == pytest.approx(wanted["loss"], rel=1e-4)
    assert loaded["accuracy"] == pytest.approx(wanted["accuracy"])


def kept_metric():
    return keras.metrics.MeanIoU(num_classes=3, sparse_y_pred=False, name="kept")


def test_arrays_are_fit_in_the_batches_of_keras():
    with eager_mode():
        model = Unbuilt()
        model.compile("adam", LOSS)
    trainer = fit(model, (X.astype("float64"), Y.astype("int64")), epochs=2, batch_size=12, monitors=[])
    assert trainer.global_step == 6
    assert trainer.monitors.get_latest("total_loss") > 0


def test_a_new_state_of_the_optimizer_is_logged_at_the_second_fit(logged):
    options = {"batch_size": ROWS, "monitors": []}
    for by_keras in (False, True):
        with eager_mode():
            model = made()
            model.compile("adam", LOSS)
            if by_keras:
                model.fit(X, Y, batch_size=ROWS, verbose=0)
        warnings = []
        for _ in range(2):
            logged.clear()
            fit(model, (X, Y), **options)
            warnings.append(sum("fit begins with a new state of Adam" in line for line in logged))
        assert warnings == [int(by_keras), 1]


@pytest.mark.parametrize("form", ["dataset", "generator"])
def test_batches_are_converted_to_the_dtypes_that_the_model_takes(form):
    def batches():
        for first in range(0, len(X), ROWS):
            yield X[first : first + ROWS].astype("float64"), Y[first : first + ROWS].astype("int16")

    with eager_mode():
        model, other = made(), made()
        for each in (model, other):
            each.compile("sgd", LOSS)
        dataset = tf2.data.Dataset.from_tensor_slices((X.astype("float64"), Y.astype("int16"))).batch(ROWS)
        other.fit(dataset, verbose=0)
    fit(model, dataset if form == "dataset" else batches, steps_per_epoch=STEPS, monitors=[])
    assert_close(model.get_weights(), other.get_weights())


def test_epochs_end_with_the_data_as_in_keras(logged):
    with eager_mode():
        model, other = made(), made()
        for each in (model, other):
            each.compile("sgd", LOSS)
        other.fit(X, Y, batch_size=ROWS, epochs=2, steps_per_epoch=STEPS + 2, shuffle=False, verbose=0)
    options = {"batch_size": ROWS, "epochs": 2, "shuffle": False, "monitors": []}
    trainer = fit(model, (X, Y), steps_per_epoch=STEPS + 2, **options)
    assert trainer.global_step == 2 * STEPS
    assert_close(model.get_weights(), other.get_weights())
    assert any("steps_per_epoch=5 and data for 3 steps: each epoch ends with the data" in line for line in logged)
    assert fit(model, (X, Y), steps_per_epoch=2, **options).global_step == 4
    assert any("for 3 steps: they begin again within an epoch, where Keras ends it" in line for line in logged)


@pytest.mark.parametrize(("limit", "size"), [(None, 3), (2, 2), (9, 3)])
def test_a_dataset_of_unknown_size_is_counted(limit, size):
    with eager_mode():
        dataset = tf2.data.Dataset.range(10).filter(lambda number: number < 9).batch(3)
        assert int(_with_size(dataset, limit).cardinality()) == size
        assert int(_with_size(tf2.data.Dataset.range(3).repeat(), limit).cardinality()) == tf2.data.INFINITE_CARDINALITY


class Unbuilt(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.last = keras.layers.Dense(3, activation="softmax")

    def call(self, x):
        return self.last(x)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("epoch", "epochs"),
        ("validation_dat", "validation_data"),
        ("max_epochs", "epochs"),
        ("initial_epochs", "initial_epoch"),
    ],
)
def test_a_misspelt_argument_of_fit_names_one_of_fit(name, meant):
    wanted = rf"^fit\(\) got an unexpected keyword argument '{name}': did you mean {meant}\?"
    with pytest.raises(TypeError, match=wanted):
        fit(made(), (X, Y), **{name: 2})


def test_what_cannot_be_fit_is_refused():
    with eager_mode():
        model, compiled = made(), made()
        compiled.compile("sgd", LOSS)
    for arguments, message in [
        ((model, (X, Y)), "was not compiled"),
        ((3, (X, Y)), "expected a compiled Keras model, a KerasModel or a ModelDesc"),
        ((compiled, X), r"got 1 array\(s\)"),
    ]:
        with pytest.raises(ConfigError, match=message):
            fit(*arguments)
    for wrong in [lambda: fit(compiled, X, Y, epochs=2), lambda: fit(compiled, x=X, y=Y)]:
        with pytest.raises(
            WrongTypeError, match=r"several arguments: expected one; use tpack\.fit\(model, \(x, y\), \.\.\.\)"
        ):
            wrong()


class OwnPlateau(keras.callbacks.ReduceLROnPlateau):
    """A user's class is told of what Keras's own one is."""


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (keras.callbacks.Callback(), "only eagerly: expected a class that derives from tpack.Callback"),
        (keras.callbacks.EarlyStopping(), r'expected EarlyStopping\("validation_total_loss"'),
        (OwnPlateau(), "such as an OwnPlateau, .* expected StatMonitorParamSetter"),
    ],
)
def test_callbacks_of_keras_are_refused_with_what_to_use_instead(callback, message):
    with pytest.raises(WrongTypeError, match=message):
        fit(made(), (X, Y), callbacks=[callback])


def test_counterparts_of_callbacks_are_there_and_can_be_made():
    for name, wanted in _COUNTERPARTS.items():
        assert hasattr(keras.callbacks, name)
        for word in re.findall(r"\b[A-Z][a-z]*[A-Z]\w+", wanted):
            assert hasattr(tpack, word) or hasattr(tpack.callbacks, word), word
    names = {name: getattr(tpack, name) for name in tpack.__all__} | {"epoch": 1, "value": 0.1}
    for name in ("EarlyStopping", "ReduceLROnPlateau", "LearningRateScheduler"):
        call = _COUNTERPARTS[name].removesuffix(" of tpack").replace("=...", "=1").replace(", ...", "")
        assert isinstance(eval(call, names), tpack.Callback)


def own_loss(target, output):
    return keras.losses.sparse_categorical_crossentropy(target, output) * 2.0


def own_metric(target, output):
    return keras.ops.max(output, axis=-1)


class OwnKeptMetric(keras.metrics.SparseCategoricalAccuracy):
    """Keras finds neither this class nor the functions by itself: nobody has registered them."""


def test_losses_and_metrics_of_ones_own_are_those_of_the_compiled_model(tmp_path):
    own = [own_metric, keras.metrics.MeanMetricWrapper(own_loss, "wrapped"), OwnKeptMetric("kept")]
    with eager_mode():
        model = made()
        model.compile("sgd", own_loss, metrics=own)
    trainer = fit(model, (X, Y), batch_size=12, monitors=[], validation_data=(X, Y))
    got = trainer.history[-1]
    trainer.export_keras(tmp_path / "model.keras")
    objects = {each.__name__: each for each in (own_loss, own_metric, OwnKeptMetric)}
    with eager_mode():
        loaded = keras.models.load_model(tmp_path / "model.keras", custom_objects=objects)
        wanted = loaded.evaluate(X, Y, verbose=0, return_dict=True)
    for name in ("own_metric", "wrapped", "kept"):
        assert got[f"validation_{name}"] == pytest.approx(wanted[name], rel=1e-5)
