"""Export a trained model: as a SavedModel for serving, or as one frozen graph file.

Plain TensorFlow reads both, without the model's code and tpack. They are moved into place when they are complete. In a
frozen graph, variables are constants, and operations for training alone are gone.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat.runtime import silent_deprecations
from tpack.errors import ConfigError, WrongTypeError
from tpack.graph_copy import op_kinds
from tpack.tfutils.determinism import create_initialized_session
from tpack.tower.context import PredictTowerContext
from tpack.utils import logger
from tpack.utils.fs import atomic_path, atomic_write
from tpack.utils.validation import check_local_path, mismatch

_DEFAULT_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


@dataclass(frozen=True)
class _Built:
    """The model in a session: its tensors by the names that the config has for them."""

    session: tf.Session
    inputs: dict[str, tf.Tensor]
    outputs: dict[str, tf.Tensor]


class ModelExporter:
    """Export the model of a ``PredictConfig``, with the values of its ``session_init``.

    Each export builds the model again, in a graph of its own, with a placeholder for each entry of the signature.

    Args:
        config: the `PredictConfig`.

    Raises:
        WrongTypeError: It is something else, such as a predictor.

    Example:
        ModelExporter(config).export_serving("exported/1")
    """

    def __init__(self, config: Any) -> None:
        # By what it has: predictors are built on this module's layer.
        if not all(hasattr(config, name) for name in ("tower_func", "output_names", "session_init")):
            raise WrongTypeError(mismatch(self, "config", config, "a PredictConfig", "the one of a predictor"))
        self.config = config

    def export_serving(
        self,
        filename: str | os.PathLike[str],
        tags: Sequence[str] = (tf.saved_model.tag_constants.SERVING,),
        signature_name: str = "prediction_pipeline",
    ) -> None:
        """Write a SavedModel, whose inputs and outputs are called as in the config.

        Its signature has two names, the second being the default of servers. (tensorpack calls inputs and outputs by
        their tensors, such as ``image:0``, and has the first name alone.)

        Args:
            filename: the directory to write; servers expect the last part to be a version number.
            tags: under which the model is loaded.
            signature_name: the name of the signature.

        Raises:
            ConfigError: The directory exists and is not empty, or is not on this machine.
            TowerError: The model has no tensor of an input or output name. The message lists near names.
            CheckpointError: The weights are missing, damaged or of other shapes.
        """
        path = os.path.abspath(check_local_path("export_serving", "filename", filename))
        if os.path.exists(path) and not (os.path.isdir(path) and not os.listdir(path)):
            raise ConfigError(mismatch("export_serving", "filename", path, "a directory that is new or empty"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with self._built() as built, atomic_path(path) as temporary:
            with silent_deprecations():
                inputs, outputs = (
                    {name: tf.saved_model.build_tensor_info(tensor) for name, tensor in tensors.items()}
                    for tensors in (built.inputs, built.outputs)
                )
            method = tf.saved_model.signature_constants.PREDICT_METHOD_NAME
            signature = tf.saved_model.build_signature_def(inputs, outputs, method)
            signatures = {signature_name: signature, _DEFAULT_SIGNATURE: signature}
            main_op = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
            options = {"main_op": main_op, "clear_devices": True, "strip_default_attrs": True}
            builder = tf.saved_model.Builder(temporary)
            builder.add_meta_graph_and_variables(built.session, list(tags), signatures, **options)
            builder.save()
        logger.info(f"Exported the model to {path}: {_names(built)}")

    def export_compact(
        self, filename: str | os.PathLike[str], optimize: bool = True, toco_compatible: bool = False
    ) -> None:
        """Write one file with the part of the graph that the outputs need; the variables have become constants.

        Args:
            filename: the file to write, usually ``.pb``; its directory is made if it is missing.
            optimize: leave out identities and checks of numbers. (tensorpack also folds batch normalisation into
                convolutions, which TensorFlow does by itself when it runs the graph.)
            toco_compatible: restrict the optimisations to those that converters can read; needs ``optimize``.

        Raises:
            ConfigError: ``toco_compatible`` comes without ``optimize``, or the file is a directory or not on this
                machine.
            TowerError: As for ``export_serving``.
            CheckpointError: As for ``export_serving``.
        """
        if toco_compatible and not optimize:
            raise ConfigError(mismatch("export_compact", "optimize", optimize, "True with toco_compatible=True"))
        path = os.path.abspath(check_local_path("export_compact", "filename", filename))
        if os.path.isdir(path):
            name = os.path.join(os.fspath(filename), "model.pb")
            raise ConfigError(mismatch("export_compact", "filename", filename, "a file, not a directory", repr(name)))
        with self._built() as built:
            keep = [tensor.op.name for tensor in [*built.inputs.values(), *built.outputs.values()]]
            frozen = freeze(built.session, list(built.outputs.values()))
        if optimize:
            frozen = without_passing_nodes(frozen, keep)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with atomic_write(path, "wb") as file:
            file.write(frozen.SerializeToString())
        logger.info(f"Exported the model to {path}: {_names(built)}")

    @contextmanager
    def _built(self) -> Iterator[_Built]:
        """Build the model for prediction and give it its values."""
        config = self.config
        tower_func = config.tower_func.without_towers()
        with tf.Graph().as_default():
            placeholders = [tf.placeholder(spec.dtype, spec.shape, name=spec.name) for spec in config.input_signature]
            with PredictTowerContext(""):
                tower_func(*placeholders)
            tower = tower_func.towers[0]
            inputs = {name: tower.get_tensor(name) for name in config.input_names}
            outputs = {name: tower.get_tensor(name) for name in config.output_names}
            with create_initialized_session(config.session_creator, config.session_init) as session:
                yield _Built(session, inputs, outputs)


def freeze(session: tf.Session, outputs: Sequence[tf.Tensor]) -> tf.GraphDef:
    """Return the GraphDef of the part that the outputs need, with the session's values as constants, and no devices."""
    names = [tensor.op.name for tensor in outputs]
    with silent_deprecations():
        frozen = tf.graph_util.convert_variables_to_constants(session, session.graph.as_graph_def(), names)
    for node in frozen.node:
        node.device = ""
        node.attr.pop("_class", None)
    return frozen


def without_passing_nodes(graph_def: tf.GraphDef, keep: Iterable[str]) -> tf.GraphDef:
    """Return a GraphDef without the nodes that only pass on their input, except those to keep.

    Nodes with control edges stay, since they may be there for the order. (TensorFlow's ``remove_training_nodes`` also
    drops the inputs that came from a check of numbers.)
    """
    awaited = {name[1:] for node in graph_def.node for name in node.input if name.startswith("^")}
    fixed = awaited | set(keep)
    source = {
        node.name: node.input[0]
        for node in graph_def.node
        if node.op in op_kinds.PASSING_ON and node.name not in fixed and len(node.input) == 1
    }
    result = tf.GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        if node.name in source:
            continue
        copy = result.node.add()
        copy.CopyFrom(node)
        copy.input[:] = [_resolve(name, source) for name in node.input]
    return result


def _names(built: _Built) -> str:
    return f"{', '.join(built.inputs)} -> {', '.join(built.outputs)}"


def _resolve(name: str, source: dict[str, str]) -> str:
    """Follow an input, where ``name:0`` is ``name``, up to a node that stays."""
    while name.removesuffix(":0") in source:
        name = source[name.removesuffix(":0")]
    return name
