"""Run the same model with the layers of `tpack.tf1` and with TensorFlow's own, and compare all that can be seen.

A case is a function that takes ``tf``, builds layers and returns their outputs (any structure of tensors). Its file has
a dict ``CASES`` of them by name, and `original` runs all of these in one process in which `tf_keras` stands behind
``tf.layers`` and ``tf.nn.rnn_cell``; the results are kept as long as the test run, so several test modules may share
one file of cases. `run_case` runs a case here:

    CASES = {"dense": lambda tf: tf.layers.dense(numbers(tf, [2, 3]), 4)}

    @pytest.mark.parametrize("name", CASES)
    def test_dense_equals_the_original(name):
        assert_same(run_case(tf1, CASES[name]), original(__file__)[name])

Variables get numbers that follow from their names, and inputs (`numbers`) from their shapes, so both runs have the same
ones. A case that raises is a result too: its ``error``.

A trial runs this file and its cases in TensorFlow 1.15 itself, so there is no syntax newer than Python 3.7 in it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

# A function that takes ``tf``.
Case = Any
CANNOT_RUN = "cannot run"
_POSITIVE = ("variance", "stddev", "renorm_weight")


@dataclass
class Result:
    """What a case made.

    Attributes:
        outputs: name, dtype and static shape (None for an unknown rank) of each output.
        variables: name, dtype, shape and whether it is trainable, in the order of creation, local ones last.
        collections: names of what is in each collection.
        error: name and text of the error that the case raised, and the names of the classes it derives from.
        values: ``output/0``, ``gradient/NAME`` of trainable variables and inputs, ``loss/NAME`` of regularisation
            losses, ``initial/NAME`` of variables, and ``after/NAME`` when UPDATE_OPS have run once.
    """

    outputs: list[list[Any]] = field(default_factory=list)
    variables: list[list[Any]] = field(default_factory=list)
    collections: dict[str, list[str]] = field(default_factory=dict)
    error: list[Any] = field(default_factory=list)
    values: dict[str, np.ndarray] = field(default_factory=dict)


def numbers(tf: Any, shape: Sequence[int], static: Any = "known", dtype: str = "float32", name: str = "x") -> Any:
    """Return an input that holds numbers which follow from its name and shape.

    Args:
        tf: the TensorFlow of the case.
        shape: the real one.
        static: what is known of it when the graph is built, such as ``[None, 3]``; None for nothing.
        dtype: its type.
        name: its name, for several inputs of one shape.
    """
    value = tf.constant(_numbers(f"{name} {list(shape)}", shape), dtype)
    return tf.placeholder_with_default(value, shape if static == "known" else static, name=name)


def run_case(tf: Any, case: Case, *, save_to: str | None = None, restore_from: str | None = None) -> Result:
    """Build a case in a graph of its own with ``tf`` and return what came of it.

    Args:
        tf: the TensorFlow to build it with.
        case: the case.
        save_to: where to write a checkpoint of the numbers that the variables get; None for nowhere.
        restore_from: a checkpoint to take the numbers from; None for those that follow from the names.
    """
    with tf.Graph().as_default() as graph, tf.Session() as session:
        try:
            outputs = [tf.convert_to_tensor(output) for output in tf.nest.flatten(case(tf))]
        except Exception as error:  # noqa: BLE001
            kinds = [kind.__name__ for kind in type(error).__mro__]
            return Result(error=[kinds[0], str(error), kinds])
        result = _description(tf, outputs)
        variables = tf.global_variables() + tf.local_variables()
        # The graph is complete before it runs: the gradient of a loop adds to the loop.
        wanted = _wanted(tf, graph, outputs)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()])
        _run(session, result, {f"initial/{variable.op.name}": variable for variable in variables})
        _give_numbers(session, variables)
        if save_to and variables:
            tf.train.Saver(variables).save(session, save_to, write_meta_graph=False)
        if restore_from and variables:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            tf.train.Saver(variables).restore(session, restore_from)
        _run(session, result, wanted)
        session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        _run(session, result, {f"after/{variable.op.name}": variable for variable in variables})
    return result


@lru_cache(maxsize=None)  # noqa: UP033 (Python 3.7)
def original(path: str) -> dict[str, Result]:
    """Run all cases of a file with TensorFlow's own layers, in a process of its own.

    Raises:
        RuntimeError: The process failed.
    """
    preloaded = importlib.import_module("tests.helpers.preloaded")
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONPATH": str(preloaded.ROOT), "TF_USE_LEGACY_KERAS": "1"}
        done = preloaded.run(Path(__file__), [path, folder], env=env)
        if done.returncode:
            raise RuntimeError(f"the original layers failed on {path}:\n{done.stdout}\n{done.stderr}")
        return read_results(folder)


def read_results(folder: str) -> dict[str, Result]:
    """Return the results that running this file has written, by the names of the cases."""
    described = json.loads(Path(folder, "results.json").read_text())
    results = {name: Result(**description) for name, description in described.items()}
    with np.load(Path(folder, "values.npz")) as values:
        for key in values.files:
            name, _, kind = key.partition("|")
            results[name].values[kind] = values[key]
    return results


def assert_same(got: Result, wanted: Result, *, tolerance: float = 1e-6, names: bool = True) -> None:
    """Check that two results are the same; an error may be of a class that derives from the wanted one.

    Args:
        got: of `run_case`.
        wanted: of `original`.
        tolerance: of values, absolute, and relative to the largest of an array.
        names: also compare the names of outputs and of what is in collections, besides those of variables.
    """
    kinds = got.error[2] if got.error else []
    assert bool(got.error) == bool(wanted.error), f"got {got.error}, expected {wanted.error}"
    assert not wanted.error or wanted.error[0] in kinds, f"got {got.error}, expected {wanted.error}"
    assert got.variables == wanted.variables
    assert [output[1:] for output in got.outputs] == [output[1:] for output in wanted.outputs]
    sizes = {key: len(items) for key, items in got.collections.items()}
    assert sizes == {key: len(items) for key, items in wanted.collections.items()}
    if names:
        assert got.outputs == wanted.outputs
        assert got.collections == wanted.collections
    assert_same_values(got.values, wanted.values, tolerance=tolerance)


def assert_same_values(
    got: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray], *, tolerance: float = 1e-6
) -> None:
    """Check that there are the same values; of initial ones only those that are not random, such as zeros."""
    assert _without_losses(got) == _without_losses(wanted)
    assert len(got) == len(wanted)
    for key, value in wanted.items():
        if not key.startswith(("initial/", "loss/")) or (key.startswith("initial/") and np.ptp(value) == 0):
            scale = max(1.0, float(np.max(np.abs(value), initial=0)))
            np.testing.assert_allclose(got[key], value, rtol=0, atol=tolerance * scale, err_msg=key)
    losses = [[value for key, value in values.items() if key.startswith("loss/")] for values in (got, wanted)]
    np.testing.assert_allclose(*losses, rtol=max(tolerance, 1e-6))


def _without_losses(values: Mapping[str, np.ndarray]) -> set[str]:
    return {key for key in values if not key.startswith("loss/")}


def _numbers(name: str, shape: Sequence[int]) -> np.ndarray:
    """Return numbers that follow from a name."""
    return np.random.default_rng(zlib.crc32(name.encode())).normal(size=shape).astype(np.float32)


def _description(tf: Any, outputs: Sequence[Any]) -> Result:
    trainable = {variable.name for variable in tf.trainable_variables()}
    variables = tf.global_variables() + tf.local_variables()
    return Result(
        outputs=[
            [output.name, output.dtype.name, output.shape.as_list() if output.shape.rank is not None else None]
            for output in outputs
        ],
        variables=[
            [variable.name, variable.dtype.base_dtype.name, variable.shape.as_list(), variable.name in trainable]
            for variable in variables
        ],
        collections={
            str(key): [_name(item) for item in tf.get_collection(key) if hasattr(item, "name")]
            for key in tf.get_default_graph().get_all_collection_keys()
            if tf.get_collection(key)
        },
    )


def _name(item: Any) -> str:
    """Return the name of an item; TensorFlow 1 had one operation where today's makes a scope with one in it."""
    return re.sub("/AssignSubVariableOp$", "", item.name)


def _give_numbers(session: Any, variables: Sequence[Any]) -> None:
    for variable in variables:
        if variable.dtype.base_dtype.is_floating:
            value = _numbers(variable.op.name, variable.shape.as_list())
            positive = any(word in variable.op.name for word in _POSITIVE)
            variable.load(np.abs(value) + 0.5 if positive else value, session)


def _wanted(tf: Any, graph: Any, outputs: Sequence[Any]) -> dict[str, Any]:
    """Return what to compute, by the name of its value."""
    wanted = {f"output/{index}": output for index, output in enumerate(outputs)}
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    wanted.update({f"loss/{loss.name}": loss for loss in losses})
    floats = [output for output in outputs if output.dtype.is_floating]
    inputs = [op.outputs[0] for op in graph.get_operations() if op.type == "PlaceholderWithDefault"]
    sources = [*tf.trainable_variables(), *(tensor for tensor in inputs if tensor.dtype.is_floating)]
    if not floats or not sources:
        return wanted
    total = tf.add_n([tf.reduce_sum(tf.cast(output * _weights(tf, output), tf.float64)) for output in floats])
    grads = tf.gradients(total, sources)
    for index, source in enumerate(sources):
        if grads[index] is not None:
            wanted[f"gradient/{source.op.name}"] = tf.convert_to_tensor(grads[index])
    return wanted


def _weights(tf: Any, output: Any) -> Any:
    """Return what to multiply an output with so that its gradients differ: cosines of its positions."""
    return tf.cast(tf.cos(tf.cast(tf.reshape(tf.range(tf.size(output)), tf.shape(output)), tf.float32)), output.dtype)


def _run(session: Any, result: Result, tensors: Mapping[str, Any]) -> None:
    for key, value in session.run(dict(tensors)).items():
        is_wide = value.dtype in (np.float64, np.int64) or value.dtype.kind not in "fV"
        result.values[key] = value if is_wide else value.astype(np.float32)


def _main(path: str, folder: str, *, saves: bool) -> None:
    tf = importlib.import_module("tensorflow.compat.v1")
    tf.get_logger().setLevel("ERROR")
    spec = importlib.util.spec_from_file_location("cases", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["cases"] = module
    spec.loader.exec_module(module)
    described, values = {}, {}
    for index, (name, case) in enumerate(module.CASES.items()):
        try:
            result = run_case(tf, case, save_to=f"{folder}/{index}" if saves else None)
        except tf.errors.OpError as error:
            result = Result(error=[CANNOT_RUN, str(error), []])
        values.update({f"{name}|{key}": value for key, value in result.values.items()})
        described[name] = asdict(Result(result.outputs, result.variables, result.collections, result.error))
    Path(folder, "results.json").write_text(json.dumps(described))
    np.savez(Path(folder, "values.npz"), **values)


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], saves="--save" in sys.argv)
