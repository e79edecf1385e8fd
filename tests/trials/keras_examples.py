"""Programs of Keras's documentation with the one line changed: each ``fit`` of theirs beside `tpack.fit`.

    git clone https://github.com/keras-team/keras-io FOLDER
    python -m tests.trials.keras_examples FOLDER [examples/vision/mnist_convnet.py ...]

Each program runs in a process of its own and an empty directory, with made-up data of the same shapes in place of what
it downloads, and networks without the weights that it would. Where it calls ``fit``, Keras trains an epoch on a few
rows, then tpack from the same weights on one tower and on two. Layers that draw random numbers let their inputs
through, callbacks of Keras are left out, data are not shuffled, XLA is off; on two towers batch normalisation is
synchronised, and batches of a dataset are split in two. A line for each ``fit`` has the largest difference of the
history, of the weights over the way that they went, and the refusal if there is one. Where they are different, "keras
from itself" is the same of Keras with the rows of each batch in the opposite order and weights that begin one place of
their last digit away, "beyond keras" the largest ratio of the two for one tensor of weights, and "tensors" the number
of elements that differ in each. A fit is "equal to rounding" if its history is equal and that ratio is below 4: Adam
makes whole steps of gradients that are rounding errors alone, as those of a key's bias in attention, of a bias before
batch normalisation, and of a weight for which those of the rows cancel are.
"""

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import json
import math
import os
import runpy
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from unittest import mock

PROGRAMS = (
    "examples/vision/mnist_convnet.py",
    "examples/vision/autoencoder.py",
    "examples/nlp/bidirectional_lstm_imdb.py",
    "examples/nlp/text_classification_with_transformer.py",
    "examples/nlp/addition_rnn.py",
    "examples/timeseries/timeseries_classification_from_scratch.py",
    "examples/timeseries/timeseries_classification_transformer.py",
    "examples/timeseries/timeseries_anomaly_detection.py",
    "examples/nlp/lstm_seq2seq.py",
    "examples/vision/siamese_contrastive.py",
    "examples/vision/supervised-contrastive-learning.py",
    "examples/vision/image_classification_with_vision_transformer.py",
    "examples/vision/convmixer.py",
    "examples/vision/mlp_image_classification.py",
    "examples/vision/attention_mil_classification.py",
    "examples/vision/involution.py",
    "examples/vision/eanet.py",
    "examples/vision/image_classification_efficientnet_fine_tuning.py",
    "examples/keras_recipes/reproducibility_recipes.py",
    "examples/keras_recipes/antirectifier.py",
    "examples/keras_recipes/endpoint_layer_pattern.py",
    "examples/keras_recipes/subclassing_conv_layers.py",
    "examples/keras_recipes/sklearn_metric_callbacks.py",
    "guides/functional_api.py",
    "guides/training_with_built_in_methods.py",
    "guides/making_new_layers_and_models_via_subclassing.py",
    "guides/transfer_learning.py",
    "guides/writing_your_own_callbacks.py",
    "guides/custom_train_step_in_tensorflow.py",
    "examples/vision/metric_learning.py",
    "examples/generative/vae.py",
    "examples/vision/knowledge_distillation.py",
)
ROWS, BATCH, BATCHES, SMALL, FITS = 38, 16, 3, 8, 30
LEFT_OUT = ("shuffle", "verbose", "initial_epoch")
SHAPES = {"mnist": ((28, 28), 10), "fashion_mnist": ((28, 28), 10), "cifar10": ((32, 32, 3), 10)}
SHAPES["cifar100"] = ((32, 32, 3), 100)
PICTURES = {"cats_vs_dogs": ((180, 160, 3), 2), "stanford_dogs": ((200, 210, 3), 120), "tf_flowers": ((90, 80, 3), 5)}
TOWERS = (1, 2)
TOLERANCE = 1e-3
FACTOR = 4
EQUAL = ("equal", "equal to rounding")
MARK = "fit of keras: "
MISSING = {
    *("torch", "jax", "pandas", "imageio", "IPython", "ipywidgets", "cv2", "seaborn"),
    *("tensorflow_addons", "tensorflow_datasets"),
}


def start(folder, program, output):
    """Start a program in a fork of this process, which has imported TensorFlow and not used it; return its number."""
    pid = os.fork()
    if pid:
        return pid
    os.setpgrp()
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    with tempfile.TemporaryDirectory() as own:
        os.chdir(own)
        try:
            child(folder, program)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    sys.stdout.flush()
    os._exit(0)


def result(program, output, status):
    """Return the facts of each call of ``fit`` that a program made, and how it ended."""
    output.seek(0)
    lines = output.read().decode(errors="replace").splitlines()
    facts = {}
    for line in lines:
        if MARK in line:
            fact = json.loads(line.partition(MARK)[2])
            facts[fact["line"], fact["number"]] = fact
    last = [line for line in lines if line.strip()][-1:]
    return {"program": program, "fits": list(facts.values()), "end": "" if status == 0 else (last or [str(status)])[0]}


def run_all(folder, programs, seconds, jobs):
    """Run programs, some at a time, and give the result of each when it has ended."""
    waiting, running = list(programs), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            output = tempfile.TemporaryFile()  # noqa: SIM115, closed with the last reference
            program = waiting.pop(0)
            running[start(folder, program, output)] = program, output, time.monotonic()
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            program, output, _ = running.pop(pid)
            yield result(program, output, status)
            continue
        for pid, (_, _, begin) in running.items():
            if time.monotonic() - begin > seconds:
                os.killpg(pid, signal.SIGKILL)
        time.sleep(0.2)


class Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Packages that are not installed, and that programs plot, download or print with."""

    def find_spec(self, name, path=None, target=None):
        is_known = name.partition(".")[0] in MISSING
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_known else None

    def create_module(self, spec):
        module = mock.MagicMock(name=spec.name)
        module.__path__, module.__spec__ = [], spec
        return module

    def exec_module(self, module):
        """Nothing is to be done."""


def stand_in(keras, np):
    """Put data of the same shapes in place of what programs download, and still what draws random numbers."""
    rng = np.random.default_rng(0)
    for name, (shape, num_classes) in SHAPES.items():
        getattr(keras.datasets, name).load_data = images(np, rng, shape, num_classes)

    def load_imdb(num_words=20000, **kwargs):
        def words(rows):
            texts = np.empty(rows, object)
            texts[:] = [rng.integers(1, num_words or 20000, rng.integers(20, 200)).tolist() for _ in range(rows)]
            return texts, rng.integers(0, 2, rows)

        return words(2 * ROWS), words(ROWS)

    keras.datasets.imdb.load_data = load_imdb
    series = np.concatenate([rng.choice([-1.0, 1.0], (ROWS, 1)), rng.normal(size=(ROWS, 500))], axis=1)
    np.loadtxt = lambda *args, **kwargs: series
    keras.utils.plot_model = lambda *args, **kwargs: None
    for name in dir(keras.applications):
        if callable(getattr(keras.applications, name)):
            setattr(keras.applications, name, untrained(getattr(keras.applications, name)))
    keras.utils.get_file = made_file(np, rng)
    keras.Model.predict, keras.Model.evaluate = predicted(keras, np), evaluated(keras.Model.evaluate)
    keras.Model.compile = without_xla(keras.Model.compile)
    keras.random.normal = lambda shape, **kwargs: keras.ops.zeros(shape)
    for name in dir(keras.layers):
        if "Dropout" in name or name.startswith(("Random", "Gaussian")):
            getattr(keras.layers, name).call = lambda self, inputs, training=False, **kwargs: inputs


def images(np, rng, shape, num_classes):
    """Return a function that makes a set of images; programs reshape them to the numbers of rows that they know."""
    sizes = [50000 if len(shape) == 3 else 60000, 10000]
    columns = [(rows, 1) if len(shape) == 3 else rows for rows in sizes]

    def load_data(**kwargs):
        return [
            (rng.integers(0, 256, (rows, *shape), "uint8"), rng.integers(0, num_classes, column, "uint8"))
            for rows, column in zip(sizes, columns, strict=True)
        ]

    return load_data


def untrained(make):
    """Return the function of an application without weights that it would download."""

    def model(*args, weights=None, **options):
        return make(*args, weights=None, **options)

    return model


def made_file(np, rng):
    """Return the function in place of ``get_file``: texts of random words, and moving pictures in an array."""

    def get_file(fname=None, origin=None, **kwargs):
        path = Path.cwd() / (fname or origin).rpartition("/")[2]
        if path.suffix == ".npy":
            np.save(path, rng.integers(0, 256, (20, ROWS // 5, 64, 64), "uint8"))
        words = rng.choice(["a", "brown", "cat", "dog", "eats", "fox", "runs", "there", "under", "when"], [2000, 4])
        if path.suffix == ".txt":
            path.write_text("\n".join(map(" ".join, words)))
        path.with_name("fra.txt").write_text("\n".join(f"{a} {b}\t{c} {d}\tby" for a, b, c, d in words))
        return str(path)

    return get_file


def image_sets(tf, rng):
    """Return the function in place of ``tensorflow_datasets.load``."""

    def load(name=None, split=(), with_info=False, **kwargs):
        shape, num_classes = PICTURES[name]

        def one(_):
            rows = rng.integers(0, 256, (3 * ROWS, *shape), "uint8"), rng.integers(0, num_classes, 3 * ROWS)
            return tf.data.Dataset.from_tensor_slices(rows)

        sets = one(split) if isinstance(split, str) else [one(each) for each in split]
        info = mock.MagicMock()
        info.features = {"label": mock.MagicMock(num_classes=num_classes, names=[str(k) for k in range(num_classes)])}
        return (sets, info) if with_info else sets

    return load


def series(pandas, np, rng):
    """Return the function in place of ``pandas.read_csv``: a value every five minutes."""

    def read_csv(*args, **kwargs):
        times = pandas.date_range("2014-04-01", periods=4032, freq="5min", name="timestamp")
        return pandas.DataFrame({"value": rng.normal(20, 3, len(times))}, index=times)

    return read_csv


def predicted(keras, np):
    """Return the function in place of ``predict``: a call on a few rows."""

    def predict(self, x=None, *args, **options):
        few = next(iter(x)) if hasattr(x, "element_spec") else keras.tree.map_structure(lambda part: part[:ROWS], x)
        inputs = few[0] if isinstance(few, tuple) else few
        return keras.tree.map_structure(np.asarray, self(inputs, training=False))

    return predict


def evaluated(whole):
    """Return the method in place of ``evaluate``, which gives zeros outside of ``fit``."""

    def evaluate(self, *args, return_dict=False, **options):
        if "_use_cached_eval_dataset" in options:
            return whole(self, *args, return_dict=return_dict, **options)
        names = [metric.name for metric in self.metrics]
        return dict.fromkeys(names, 0.0) if return_dict else [0.0] * len(names) if len(names) > 1 else 0.0

    return evaluate


def without_xla(compiling):
    """Return a method that compiles a model without XLA, which takes long for a few steps."""

    def run(self, *args, **options):
        return compiling(self, *args, **{**options, "jit_compile": False})

    return run


class Comparison:
    """A call of ``fit`` of a program: what Keras makes of a model, and what tpack does from the same weights."""

    def __init__(self, modules, whole_fit, model, fact):
        self._keras, self._np, self._tf, self._tpack = modules
        self._whole_fit, self._model, self._fact = whole_fit, model, fact

    def run(self, x, y, batch_size, options):
        """Compare; return Keras's history."""
        model, fact = self._model, self._fact
        x, y, options, batch_size = smaller(self._keras, self._tf, x, y, options, batch_size)
        plain = {"batch_size": batch_size, "epochs": 1, "shuffle": False, "verbose": 0, **options}
        try:
            build(model, self._keras, x)
            first = model.get_weights()
            history = self._whole_fit(model, x, y, **plain)
        except Exception as error:
            fact["keras"] = f"{type(error).__name__}: {error}"[:200]
            tell(fact)
            raise
        wanted, parts, tensors = model.get_weights(), [], {}
        try:
            for towers in TOWERS:
                tell(fact)
                model.set_weights(first)
                got = self._by_towers(towers, x, y, {**options, "batch_size": batch_size})
                fact[f"history of {towers}"] = worst(self._np, history.history, got)
                fact[f"weights of {towers}"] = self._way(first, wanted)
                parts.append(self._ways(first, wanted))
                tensors |= self._num_different(first, wanted)
            if max(fact[f"weights of {towers}"] for towers in TOWERS) > TOLERANCE and "sample_weight" not in plain:
                own = self._from_itself(x, y, plain, first, wanted)
                fact |= {"keras from itself": max(own.values()), "beyond keras": beyond(parts, own), "tensors": tensors}
        except Exception as error:
            is_refused = isinstance(error, self._tpack.errors.TpackError)
            fact["refused" if is_refused else "failed"] = f"{type(error).__name__}: {error}"[:400]
            if not is_refused:
                traceback.print_exc()
        model.set_weights(wanted)
        tell(fact)
        return history

    def _by_towers(self, towers, x, y, options):
        data = halves(self._tf, x) if towers == 2 else x
        with synchronized(self._keras, self._model, is_on=towers == 2):
            data = data if y is None else (data, y)
            fit = self._tpack.fit
            return fit(self._model, data, towers=towers, shuffle=False, verbose=0, monitors=[], **options).history[-1]

    def _from_itself(self, x, y, plain, first, wanted):
        """Train by Keras with rounding errors that are others; return the differences by tensor."""
        self._model.set_weights(next_to(self._np, first))
        reset(self._keras, self._model.optimizer)
        trained = len_of_training(self._keras, x, plain.pop("validation_split", 0))
        own = cut(self._keras, x, trained), cut(self._keras, y, trained)
        self._whole_fit(self._model, *reversed_rows(self._keras, self._tf, *own, plain["batch_size"]), **plain)
        return self._ways(first, wanted)

    def _way(self, first, wanted):
        """Return the largest difference of a weight over the largest way of one."""
        return max(self._ways(first, wanted).values(), default=0.0)

    def _ways(self, first, wanted):
        """Return the same for each tensor of weights, by its path."""
        return {name: float(part.max()) for name, part in self._differences(first, wanted).items()}

    def _num_different(self, first, wanted):
        """Return how many elements differ in each of the tensors that have some."""
        counts = {name: int((part > TOLERANCE).sum()) for name, part in self._differences(first, wanted).items()}
        return {name: count for name, count in counts.items() if count}

    def _differences(self, first, wanted):
        """Return the differences of all weights over the largest way of one, by the tensor's path."""
        names = [f"{index}:{variable.path}" for index, variable in enumerate(self._model.weights)]
        rows = [row for row in zip(names, first, wanted, self._model.get_weights(), strict=True) if row[1].size]
        largest = max((self._np.abs(a - b).max() for _, a, b, _ in rows), default=0)
        return {name: self._np.abs(c - b) / largest for name, _, b, c in rows}


def compared_fit(modules, facts):
    """Return the function in place of ``fit``."""
    whole_fit = modules[0].Model.fit

    def fit(self, x=None, y=None, batch_size=None, epochs=1, callbacks=None, **options):
        if len(facts) >= FITS:
            raise SystemExit
        facts.append({"line": line_of_program(), "number": len(facts), "callbacks": len(callbacks or ())})
        options = {name: value for name, value in options.items() if name not in LEFT_OUT}
        return Comparison(modules, whole_fit, self, facts[-1]).run(x, y, batch_size, options)

    return fit


def tell(fact):
    """Print what is known of a fit, for the process that has started the program."""
    print(MARK + json.dumps(fact), flush=True)


def smaller(keras, tf, x, y, options, batch_size):
    """Return few rows of arrays in few batches, or few batches of datasets."""
    given = options.get("validation_data")
    if isinstance(x, (tf.data.Dataset, keras.utils.PyDataset)):
        if isinstance(given, tf.data.Dataset):
            options = {**options, "validation_data": rows_of(tf, given)}
        options.pop("steps_per_epoch", None)
        return (rows_of(tf, x) if isinstance(x, tf.data.Dataset) else x), y, options, None
    if isinstance(given, tuple):
        options = {**options, "validation_data": tuple(cut(keras, part, ROWS // 2) for part in given)}
    if options.get("sample_weight") is not None:
        options = {**options, "sample_weight": cut(keras, options["sample_weight"], ROWS)}
    return cut(keras, x, ROWS), cut(keras, y, ROWS), options, min(batch_size or BATCH, BATCH)


def cut(keras, part, rows):
    """Return the first rows of arrays; all of what is None or a dataset."""
    return part if rows is None or part is None else keras.tree.map_structure(lambda array: array[:rows], part)


def len_of_training(keras, x, validation_split):
    """Return the number of rows that Keras trains on; None for all."""
    return int(len(keras.tree.flatten(x)[0]) * (1 - validation_split)) if validation_split else None


def rows_of(tf, dataset):
    """Return a few whole batches of a dataset, which do not change when they are read again.

    Their number is known: otherwise Keras, where it knows the size of a batch, counts one more in the mean losses of
    the first epoch.
    """
    rows = dataset.take(BATCHES * BATCH // SMALL).unbatch().batch(SMALL, drop_remainder=True).take(BATCHES).cache()
    return rows.apply(tf.data.experimental.assert_cardinality(sum(1 for _ in rows)))


def halves(tf, x):
    """Return batches for two towers, each of which takes one: the halves of those of Keras."""
    return x.unbatch().batch(SMALL // 2) if isinstance(x, tf.data.Dataset) else x


def reversed_rows(keras, tf, x, y, size):
    """Return data with the rows of each batch in the opposite order."""
    if isinstance(x, tf.data.Dataset):
        return x.map(lambda *batch: tf.nest.map_structure(lambda part: tf.reverse(part, [0]), batch)), y
    if isinstance(x, keras.utils.PyDataset):
        return x, y

    def turned(array):
        order = [row for at in range(0, len(array), size) for row in reversed(range(at, min(at + size, len(array))))]
        return array[order] if hasattr(array, "dtype") else [array[row] for row in order]

    return [None if part is None else keras.tree.map_structure(turned, part) for part in (x, y)]


@contextlib.contextmanager
def synchronized(keras, model, *, is_on):
    """Normalise by the whole batch in a block, as Keras does on one device."""
    layers = [each for each in model._flatten_layers() if isinstance(each, keras.layers.BatchNormalization)]
    before = [layer.synchronized for layer in layers]
    for layer in layers:
        layer.synchronized = layer.synchronized or is_on
    try:
        yield
    finally:
        for layer, value in zip(layers, before, strict=True):
            layer.synchronized = value


def build(model, keras, x):
    """Make the weights of a model that has none, as its first batch would."""
    if model.built:
        return
    batch = next(iter(x)) if hasattr(x, "element_spec") else x[0] if hasattr(x, "on_epoch_end") else x
    inputs = batch[0] if batch is not x and isinstance(batch, tuple) else batch
    model(inputs if batch is not x else keras.tree.map_structure(lambda array: array[:2], inputs))


def beyond(parts, own):
    """Return the largest ratio of a tensor's difference to what Keras has from itself, and the tensor's path."""
    ratios = [(way / max(own[name], TOLERANCE), name) for part in parts for name, way in part.items()]
    return list(max(ratios, default=(0.0, "")))


def next_to(np, weights):
    """Return weights one place of the last digit away from given ones, up and down in turn."""

    def moved(array):
        ways = np.where(np.arange(array.size).reshape(array.shape) % 2, np.inf, -np.inf).astype(array.dtype)
        return np.nextafter(array, ways)

    return [moved(array) if array.dtype.kind == "f" else array for array in weights]


def reset(keras, optimizer):
    """Take back what an optimizer has learned."""
    for variable in optimizer.variables if optimizer is not None else ():
        if "learning_rate" not in variable.path:
            variable.assign(keras.ops.zeros_like(variable))


def line_of_program():
    """Return the line of the program that calls ``fit``."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != "__main__example__":
        frame = frame.f_back
    return frame.f_lineno if frame is not None else 0


def worst(np, wanted, got):
    """Return the largest relative difference of a history, and the name of that number."""
    worst_name, most = "", 0.0
    for name, values in wanted.items():
        prefix, plain = ("validation_", name[4:]) if name.startswith("val_") else ("", name)
        ours = got.get(prefix + ("total_loss" if plain == "loss" else plain))
        theirs = float(np.mean(values[-1]))
        difference = float("inf") if ours is None else abs(ours - theirs) / max(1e-3, abs(theirs))
        if not difference <= most:
            worst_name, most = name, difference
    return [most, worst_name]


def child(folder, program):
    """Run a program here, with its ``fit`` compared."""
    warnings.simplefilter("ignore")
    import keras  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415

    import tpack  # noqa: PLC0415

    sys.argv = [program]
    keras.utils.set_random_seed(0)
    stand_in(keras, np)
    sys.meta_path.append(Missing())
    rng = np.random.default_rng(1)
    importlib.import_module("tensorflow_datasets").load = image_sets(tf, rng)
    pandas = importlib.import_module("pandas")
    pandas.read_csv = series(pandas, np, rng)
    add_ons = importlib.import_module("tensorflow_addons")
    add_ons.optimizers.AdamW = lambda learning_rate=1e-3, weight_decay=None, **options: keras.optimizers.AdamW(
        learning_rate, weight_decay
    )
    keras.Model.fit = compared_fit((keras, np, tf, tpack), [])
    runpy.run_path(str(Path(folder, program)), run_name="__main__example__")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    parser.add_argument("--seconds", type=int, default=300, help="the longest that a program may run")
    parser.add_argument("--jobs", type=int, default=1, help="the programs that run at a time")
    options = parser.parse_args()
    os.environ |= {"MPLBACKEND": "Agg", "TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"}
    for name in ("keras", "tpack.keras.training", "matplotlib.pyplot"):
        importlib.import_module(name)
    num_equal = 0
    for found in run_all(options.folder.resolve(), options.programs, options.seconds, options.jobs):
        verdicts = [verdict(fact) for fact in found["fits"]]
        num_equal += set(verdicts) <= {*EQUAL, "refused"} and bool(set(verdicts) & set(EQUAL))
        ended = f"; the program ended with {found['end'][:160]}" if found["end"] else ""
        print(f"{found['program']}: {len(verdicts)} fit(s), {', '.join(verdicts)}{ended}", flush=True)
        for fact in found["fits"]:
            print(f"    {json.dumps(fact)}", flush=True)
    print(f"equal: {num_equal} of {len(options.programs)}")


def verdict(fact):
    """Return a word for the facts of a fit."""
    if ends := {"refused", "failed"} & fact.keys():
        return ends.pop()
    known = [fact.get(f"history of {k}", [None])[0] for k in TOWERS] + [fact.get(f"weights of {k}") for k in TOWERS]
    if None in known:
        return "keras failed" if "keras" in fact else "not finished"
    if max(known) < TOLERANCE:
        return "equal"
    is_noise = max(known[: len(TOWERS)]) < TOLERANCE and fact.get("beyond keras", [math.inf])[0] < FACTOR
    return "equal to rounding" if is_noise else "different"


if __name__ == "__main__":
    main()
