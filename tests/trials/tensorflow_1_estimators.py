"""Train the same models by the estimators of TensorFlow 1.15 and by those of `tpack.tf1`, and compare.

    python -m tests.trials.tensorflow_1_estimators PYTHON_OF_1_15 [CASE ...]

The other Python is one that has TensorFlow 1.15 with ``tf.contrib``. For each case it trains some steps, evaluates and
predicts, and trains some more. tpack starts with the checkpoint of the first steps, which has to give the same results,
and trains the other steps, after which variables, losses in event files, metrics and predictions have to be the same.
Trained from the beginning, a model has to have variables of the same names and shapes. In the end TensorFlow 1.15 loads
what tpack trained, and evaluates it to the same metrics.

This file is run by both Pythons, so it has no syntax newer than 3.7.
"""

import glob
import importlib
import os
import pickle
import shutil
import sys
import tempfile
import warnings

import numpy as np

_FIRST_STEPS = 3
_ALL_STEPS = 6
_BATCH = 16
_EXAMPLES = 48
_RELATIVE = 2e-4
_ABSOLUTE = 2e-5
_SLOTS = ("Adagrad", "Ftrl", "Ftrl_1")
_WORDS = ["u", "v", "w"]


def data():
    """Return features, and labels by their kinds."""
    rng = np.random.RandomState(0)
    features = {
        "x": rng.randn(_EXAMPLES, 2).astype("float32"),
        "a": rng.randn(_EXAMPLES).astype("float32"),
        "c": rng.choice(_WORDS, _EXAMPLES),
        "d": rng.choice(_WORDS, _EXAMPLES),
        "h": rng.randint(0, 4, _EXAMPLES),
        "w": (rng.rand(_EXAMPLES, 1) + 0.5).astype("float32"),
    }
    labels = {
        "two": rng.randint(0, 2, _EXAMPLES),
        "three": rng.randint(0, 3, _EXAMPLES),
        "words": rng.choice(_WORDS, _EXAMPLES),
        "number": rng.randn(_EXAMPLES, 1).astype("float32"),
        "count": rng.poisson(2, (_EXAMPLES, 1)).astype("float32"),
        "share": rng.rand(_EXAMPLES, 1).astype("float32"),
        "several": rng.randint(0, 2, (_EXAMPLES, 3)),
    }
    labels["both"] = {"r": labels["number"], "b": labels["two"]}
    return features, labels


def columns(tf):
    """Return columns for a linear model, and for a network."""
    fc = tf.feature_column
    x, a = fc.numeric_column("x", shape=(2,)), fc.numeric_column("a")
    c, d = (fc.categorical_column_with_vocabulary_list(key, _WORDS) for key in "cd")
    h = fc.categorical_column_with_identity("h", 4)
    buckets = fc.bucketized_column(a, [-0.5, 0.5])
    hashed = fc.categorical_column_with_hash_bucket("d", 5)
    crossed, weighted = fc.crossed_column(["c", "h"], 10), fc.weighted_categorical_column(hashed, "w")
    shared = fc.shared_embedding_columns([c, d], 2)
    linear = [x, a, c, h, buckets, crossed, weighted]
    return linear, [x, fc.embedding_column(h, 3, combiner="sqrtn"), fc.indicator_column(c), buckets] + list(shared)


def cases(tf):
    """Return {name: (function of the options of an estimator, kind of labels)}."""
    est, heads = tf.estimator, tf.contrib.estimator
    linear, deep = columns(tf)
    both = {"linear_feature_columns": linear, "dnn_feature_columns": deep, "dnn_hidden_units": [5, 3]}
    sgd = tf.train.GradientDescentOptimizer
    mean = tf.losses.Reduction.SUM_OVER_BATCH_SIZE

    def by_head(head):
        return lambda **o: est.LinearEstimator(head, linear, **o)

    watched = heads.multi_label_head(3, "w", [0.3], classes_for_class_based_metrics=[0, 2])
    named = heads.binary_classification_head(thresholds=[0.3, 0.7], name="hd")
    two = heads.multi_head([heads.regression_head(name="r"), heads.binary_classification_head(name="b")], [1.0, 2.0])
    return {
        "linear classifier": (lambda **o: est.LinearClassifier(linear, **o), "two"),
        "linear classifier of 3, weights": (
            lambda **o: est.LinearClassifier(linear, n_classes=3, weight_column="w", sparse_combiner="mean", **o),
            "three",
        ),
        "linear regressor, Adam": (lambda **o: est.LinearRegressor(linear, optimizer="Adam", **o), "number"),
        "linear regressor, mean loss": (
            lambda **o: est.LinearRegressor(linear, optimizer=lambda: sgd(0.1), loss_reduction=mean, **o),
            "number",
        ),
        "linear regressor in parts": (
            lambda **o: est.LinearRegressor(linear, partitioner=tf.fixed_size_partitioner(2), **o),
            "number",
        ),
        "network classifier": (lambda **o: est.DNNClassifier([5, 3], deep, **o), "two"),
        "network classifier of words": (
            lambda **o: est.DNNClassifier([5], deep, n_classes=3, label_vocabulary=_WORDS, **o),
            "words",
        ),
        "network classifier, normalised": (
            lambda **o: est.DNNClassifier([5, 3], deep, n_classes=3, batch_norm=True, activation_fn=tf.nn.tanh, **o),
            "three",
        ),
        "network regressor, RMSProp": (lambda **o: est.DNNRegressor([5], deep, optimizer="RMSProp", **o), "number"),
        "network regressor in parts": (
            lambda **o: est.DNNRegressor([5], deep, input_layer_partitioner=tf.fixed_size_partitioner(2), **o),
            "number",
        ),
        "combined classifier": (lambda **o: est.DNNLinearCombinedClassifier(**dict(both, **o)), "two"),
        "combined regressor, normalised": (
            lambda **o: est.DNNLinearCombinedRegressor(batch_norm=True, weight_column="w", **dict(both, **o)),
            "number",
        ),
        "baseline classifier": (lambda **o: est.BaselineClassifier(n_classes=3, **o), "three"),
        "baseline regressor": (lambda **o: est.BaselineRegressor(weight_column="w", optimizer="SGD", **o), "number"),
        "head of several labels": (by_head(watched), "several"),
        "head with name and thresholds": (by_head(named), "two"),
        "head of Poisson": (by_head(heads.poisson_regression_head()), "count"),
        "head of shares": (by_head(heads.logistic_regression_head(weight_column="w")), "share"),
        "two heads": (by_head(two), "both"),
    }


class Case:
    """One model of one of the two libraries, in one directory."""

    def __init__(self, tf, name, directory):
        make, kind = cases(tf)[name]
        config = tf.estimator.RunConfig(tf_random_seed=1, save_summary_steps=1)
        self._tf = tf
        self._features, labels = data()
        self._labels = labels[kind]
        self._directory = directory
        self._estimator = make(model_dir=directory, config=config)

    def train(self, last_step):
        """Train to a step."""
        self._estimator.train(lambda: self._batches().repeat(), max_steps=last_step)

    def results(self):
        """Return metrics, predictions, variables, and what is in event files."""
        scalars = {}
        for path in glob.glob(os.path.join(self._directory, "events.*")):
            for event in self._tf.train.summary_iterator(path):
                for value in event.summary.value:
                    if value.HasField("simple_value") and "/sec" not in value.tag:
                        scalars[f"{value.tag} at {event.step}"] = value.simple_value
        reader = self._tf.train.load_checkpoint(self._tf.train.latest_checkpoint(self._directory))
        variables = {}
        for name in reader.get_variable_to_shape_map():
            # A slot of one part has a name as if it were of the whole, and cannot be read as a whole.
            is_part = "in_parts" in self._directory and name.rsplit("/")[-1] in _SLOTS
            variables[name] = 0 if is_part else reader.get_tensor(name)
        metrics = self._estimator.evaluate(self._batches)
        rows = list(self._estimator.predict(self._batches))
        predictions = {str(key): np.stack([row[key] for row in rows]) for key in rows[0]}
        return {"metric": metrics, "prediction": predictions, "variable": variables, "summary": scalars}

    def _batches(self):
        dataset = self._tf.data.Dataset.from_tensor_slices((self._features, self._labels))
        return dataset.batch(_BATCH)


def directory_of(base, name):
    return os.path.join(base, name.replace(" ", "_").replace(",", ""))


def inside(stage, base, names):
    """What TensorFlow 1.15 does: the first steps and the others, or the evaluation of what tpack trained."""
    warnings.simplefilter("ignore")
    tf = importlib.import_module("tensorflow")
    tf.logging.set_verbosity(tf.logging.ERROR)
    importlib.import_module("tensorflow.contrib.estimator")
    found = {}
    for name in names or list(cases(tf)):
        with tf.Graph().as_default():
            directory = directory_of(base, name)
            if stage == "again":
                found[name] = Case(tf, name, directory + "_tpack").results()
                continue
            case = Case(tf, name, directory)
            case.train(_FIRST_STEPS)
            first = case.results()
            shutil.copytree(directory, directory + "_tpack")
            case.train(_ALL_STEPS)
            found[name] = first, case.results()
    with open(os.path.join(base, stage + ".pickle"), "wb") as stream:
        pickle.dump(found, stream, protocol=4)


def differences(expected, got, parts=("metric", "prediction", "variable", "summary")):
    """Return what is different, a line each."""
    lines = []
    for part in parts:
        missing, more = sorted(set(expected[part]) - set(got[part])), sorted(set(got[part]) - set(expected[part]))
        lines += [f"no {part} {name}" for name in missing]
        lines += [f"one more {part} {name}" for name in more]
        for name in sorted(set(expected[part]) & set(got[part])):
            one, other = np.asarray(expected[part][name]), np.asarray(got[part][name])
            is_text = one.dtype.kind in "OSU"
            same = one.shape == other.shape and (
                (one == other).all() if is_text else np.allclose(one, other, _RELATIVE, _ABSOLUTE)
            )
            if not same:
                lines.append(f"{part} {name}: {one.ravel()[:4]} and {other.ravel()[:4]}")
    return lines


def compare(python, base, names):
    """Run both and report; return how many cases differ."""
    from tests.helpers import tensorflow_1  # noqa: PLC0415 (the other Python does not have it)

    def run_inside(stage):
        command = [python, "-W", "ignore", os.path.abspath(__file__), "--inside", stage, base] + names
        tensorflow_1.run(command)
        with open(os.path.join(base, stage + ".pickle"), "rb") as stream:
            return pickle.load(stream)

    importlib.import_module("tensorflow").compat.v1.disable_eager_execution()
    tf = importlib.import_module("tpack.tf1")
    tf.logging.set_verbosity(tf.logging.ERROR)
    original = run_inside("train")
    found = {}
    for name, (first, last) in original.items():
        directory = directory_of(base, name)
        with tf.Graph().as_default():
            case = Case(tf, name, directory + "_tpack")
            lines = ["at first: " + line for line in differences(first, case.results())]
            case.train(_ALL_STEPS)
            results = case.results()
            lines += ["in the end: " + line for line in differences(last, results)]
            fresh = Case(tf, name, directory + "_fresh")
            fresh.train(1)
            shapes = [{k: np.shape(v) for k, v in r["variable"].items()} for r in (last, fresh.results())]
            lines += ["from the beginning: variables differ"] if shapes[0] != shapes[1] else []
        found[name] = lines, results
    again = run_inside("again")
    num_bad = 0
    for name, (lines, results) in found.items():
        lines += ["loaded by 1.15: " + line for line in differences(results, again[name], ("metric", "prediction"))]
        counts = ", ".join(f"{len(values)} {part}s" for part, values in sorted(results.items()))
        print("{}: {} ({})".format(name, "the same" if not lines else "DIFFERENT", counts))
        for line in lines:
            print("    " + line)
        num_bad += bool(lines)
    print(f"{len(found) - num_bad} of {len(found)} models are the same")
    return num_bad


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        inside(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        with tempfile.TemporaryDirectory() as scratch:
            sys.exit(bool(compare(sys.argv[1], scratch, sys.argv[2:])))
