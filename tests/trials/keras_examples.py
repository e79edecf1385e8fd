"""Programs of Keras's documentation with the one line changed: each ``fit`` of theirs beside `tpack.fit`.

    git clone https://github.com/keras-team/keras-io FOLDER
    python -m tests.trials.keras_examples FOLDER [examples/vision/mnist_convnet.py ...]

Each program runs in a process of its own, with data of the same shapes in place of what it downloads. Where it calls
``fit``, Keras trains an epoch on a few rows, then tpack from the same weights on one tower and on two. Layers that draw
random numbers let their inputs through, callbacks of Keras are left out, data are not shuffled. A line for each ``fit``
has the largest difference of the history, of the weights over the way that they went, and the refusal if there is one.
"""

import argparse
import importlib.abc
import importlib.machinery
import json
import os
import runpy
import subprocess
import sys
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
    "examples/vision/siamese_contrastive.py",
    "examples/vision/supervised-contrastive-learning.py",
    "examples/vision/image_classification_with_vision_transformer.py",
    "examples/vision/convmixer.py",
    "examples/vision/mlp_image_classification.py",
    "examples/vision/attention_mil_classification.py",
    "examples/vision/involution.py",
    "examples/keras_recipes/antirectifier.py",
    "examples/keras_recipes/endpoint_layer_pattern.py",
    "examples/keras_recipes/subclassing_conv_layers.py",
    "guides/functional_api.py",
    "guides/training_with_built_in_methods.py",
    "guides/making_new_layers_and_models_via_subclassing.py",
    "guides/transfer_learning.py",
    "guides/customizing_what_happens_in_fit.py",
    "examples/vision/metric_learning.py",
    "examples/generative/vae.py",
    "examples/vision/knowledge_distillation.py",
)
ROWS, BATCH, BATCHES, FITS = 70, 32, 3, 30
SHAPES = {"mnist": ((28, 28), 10), "fashion_mnist": ((28, 28), 10), "cifar10": ((32, 32, 3), 10)}
SHAPES["cifar100"] = ((32, 32, 3), 100)
MARK = "fit of keras: "
MISSING = {
    *("torch", "jax", "pandas", "imageio", "IPython", "ipywidgets", "cv2", "seaborn"),
    *("tensorflow_addons", "tensorflow_datasets"),
}


def run(folder, program, seconds):
    """Run a program in a process of its own, and return the facts of each of its calls of ``fit``."""
    command = [sys.executable, "-m", "tests.trials.keras_examples", "--child", str(folder), program]
    environment = {**os.environ, "MPLBACKEND": "Agg", "TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"}
    root = Path(__file__).resolve().parents[2]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, cwd=root, env=environment, check=False
        )
        output, end = done.stdout, done.stderr.strip().splitlines()[-1:] if done.returncode else []
    except subprocess.TimeoutExpired as error:
        output, end = (error.stdout or b"").decode(), [f"ended after {seconds} s"]
    lines = [line.partition(MARK)[2] for line in output.splitlines() if MARK in line]
    return [json.loads(line) for line in lines], "; ".join(end)


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
    for name in ("evaluate", "predict"):
        setattr(keras.Model, name, on_few_rows(keras, getattr(keras.Model, name)))
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


def on_few_rows(keras, method):
    """Return a method of a model that only looks at a few rows."""

    def few(self, x=None, *args, **options):
        if hasattr(x, "element_spec"):
            return method(self, x.take(1), *args, **options)
        args = tuple(keras.tree.map_structure(lambda array: array[:ROWS], part) for part in args)
        return method(self, keras.tree.map_structure(lambda array: array[:ROWS], x), *args, **options)

    return few


def compared_fit(keras, np, tf, tpack, facts):
    """Return the function in place of ``fit``."""
    whole_fit = keras.Model.fit

    def fit(self, x=None, y=None, batch_size=None, epochs=1, callbacks=None, **options):
        if len(facts) >= FITS:
            raise SystemExit
        fact = {"line": line_of_program(), "callbacks": len(callbacks or ())}
        facts.append(fact)
        options = {
            name: value for name, value in options.items() if name not in ("shuffle", "verbose", "initial_epoch")
        }
        x, y, options, batch_size = smaller(keras, tf, x, y, options, batch_size)
        data = x if y is None else (x, y)
        try:
            build(keras, self, x)
            first = self.get_weights()
            history = whole_fit(self, x, y, batch_size=batch_size, epochs=1, shuffle=False, verbose=0, **options)
        except Exception as error:
            fact["keras"] = f"{type(error).__name__}: {error}"[:200]
            print(MARK + json.dumps(fact), flush=True)
            raise
        wanted = self.get_weights()
        try:
            options.update(batch_size=batch_size, shuffle=False, verbose=0, monitors=[])
            for towers in (1, 2):
                self.set_weights(first)
                trainer = tpack.fit(self, data, towers=towers, **options)
                fact[f"history of {towers}"] = worst(np, history.history, trainer.history[-1])
                fact[f"weights of {towers}"] = way(np, first, wanted, self.get_weights())
        except Exception as error:
            fact["tpack"] = f"{type(error).__name__}: {error}"[:400]
            if "ConfigError" not in [cls.__name__ for cls in type(error).__mro__]:
                traceback.print_exc()
        self.set_weights(wanted)
        print(MARK + json.dumps(fact), flush=True)
        return history

    return fit


def smaller(keras, tf, x, y, options, batch_size):
    """Return few rows of arrays in few batches, or few batches of datasets."""

    def cut(part, rows):
        return None if part is None else keras.tree.map_structure(lambda array: array[:rows], part)

    given = options.get("validation_data")
    if isinstance(x, (tf.data.Dataset, keras.utils.PyDataset)):
        is_set = isinstance(given, tf.data.Dataset)
        changed = {"validation_data": given.take(BATCHES) if is_set else given}
        options = {**options, **changed, **({"steps_per_epoch": 2} if options.get("steps_per_epoch") else {})}
        return (x.take(BATCHES) if isinstance(x, tf.data.Dataset) else x), y, options, None
    if isinstance(given, tuple):
        options = {**options, "validation_data": tuple(cut(part, ROWS // 2) for part in given)}
    if options.get("sample_weight") is not None:
        options = {**options, "sample_weight": cut(options["sample_weight"], ROWS)}
    return cut(x, ROWS), cut(y, ROWS), options, min(batch_size or BATCH, BATCH)


def build(keras, model, x):
    """Make the weights of a model that has none, as its first batch would."""
    if not model.built:
        batch = next(iter(x)) if hasattr(x, "element_spec") else x[0] if hasattr(x, "on_epoch_end") else x
        inputs = batch[0] if batch is not x and isinstance(batch, tuple) else batch
        model(inputs if batch is not x else keras.tree.map_structure(lambda array: array[:2], inputs))
    for variable in model.optimizer.variables if model.optimizer is not None else ():
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


def way(np, first, wanted, got):
    """Return the largest difference of a weight over the largest way of one."""
    largest = max((np.abs(a - b).max() for a, b in zip(first, wanted, strict=True) if a.size), default=0)
    return float(max((np.abs(a - b).max() for a, b in zip(got, wanted, strict=True) if a.size), default=0) / largest)


def child(folder, program):
    """Run a program here, with its ``fit`` compared."""
    warnings.simplefilter("ignore")
    import keras  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415

    import tpack  # noqa: PLC0415

    keras.utils.set_random_seed(0)
    stand_in(keras, np)
    sys.meta_path.append(Missing())
    add_ons = importlib.import_module("tensorflow_addons")
    add_ons.optimizers.AdamW = lambda learning_rate=1e-3, weight_decay=None, **options: keras.optimizers.AdamW(
        learning_rate, weight_decay
    )
    keras.Model.fit = compared_fit(keras, np, tf, tpack, [])
    runpy.run_path(str(Path(folder, program)), run_name="__main__example__")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    parser.add_argument("--seconds", type=int, default=300, help="the longest that a program may run")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.folder, options.programs[0])
        return
    for program in options.programs:
        facts, end = run(options.folder, program, options.seconds)
        print(f"{program}: {len(facts)} fit(s){f'; the program ended with {end[:160]}' if end else ''}", flush=True)
        for fact in facts:
            print(f"    {json.dumps(fact)}", flush=True)


if __name__ == "__main__":
    main()
