"""Export a model of an Estimator as a SavedModel, in a directory named by the time.

It has a signature for each pair of an output and a way to feed the model.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.building import BuiltModel, ModelParts
from tpack.estimator.inputs import ServingInputReceiver, receiver_tensors_by_name
from tpack.estimator.session import add_default_saver, restore
from tpack.estimator.spec import ExportOutput, PredictOutput
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.utils import logger
from tpack.utils.fs import atomic_path
from tpack.utils.validation import check_function

_ASSETS_EXTRA = "assets.extra"


@dataclass(frozen=True)
class ExportTarget:
    """The destination and form of an export.

    Attributes:
        path: the directory, written atomically.
        assets_extra: path inside ``assets.extra`` of the model to the file to copy there.
        as_text: write the graph as text.
    """

    path: str
    assets_extra: Mapping[str, str] | None = None
    as_text: bool = False


def export_model(
    parts: ModelParts, model: BuiltModel, receiver: ServingInputReceiver, checkpoint: str, target: ExportTarget
) -> None:
    """Write a model that was built into the current graph for prediction, with the values of a checkpoint's prefix.

    Raises:
        ConfigError: The model has no export outputs.
        CheckpointError: The checkpoint does not fit the model.
    """
    spec, graph = model.spec, model.global_step.graph
    if not spec.export_outputs:
        raise ConfigError("the model has no export_outputs: expected one at least to export it")
    signatures = signature_defs(receiver, spec.export_outputs)
    main_op = spec.scaffold.local_init_op
    if main_op is None:
        main_op = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
    add_default_saver(spec.scaffold, parts.config)
    saver = spec.scaffold.saver or tf.get_collection(tf.GraphKeys.SAVERS)[0]
    saver.build()
    # A saver of the model's own may leave variables out.
    init_op = tf.global_variables_initializer()
    os.makedirs(os.path.dirname(target.path), exist_ok=True)
    creator = NewSessionCreator(config=parts.config.session_config)
    with creator.create_session() as session, atomic_path(target.path) as temporary:
        session.run(init_op)
        restore(session, saver, checkpoint)
        builder = tf.saved_model.Builder(temporary)
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.tag_constants.SERVING],
            signature_def_map=signatures,
            assets_collection=graph.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=main_op,
            clear_devices=True,
            strip_default_attrs=True,
        )
        builder.save(target.as_text)
        _copy_extra(target.assets_extra or {}, temporary)
    logger.info(f"Exported the model to {target.path}: {', '.join(sorted(signatures))}")


def call_receiver_fn(serving_input_receiver_fn: Callable[[], ServingInputReceiver]) -> ServingInputReceiver:
    """Call the function in the current graph; refuse other objects, and other results."""
    expected = "a function that returns a ServingInputReceiver"
    receiver = check_function("an export", "serving_input_receiver_fn", serving_input_receiver_fn, expected)()
    if not isinstance(receiver, ServingInputReceiver):
        raise ConfigError(f"serving_input_receiver_fn returned {receiver!r}: expected a ServingInputReceiver")
    return receiver


def new_export_dir(base: str) -> str:
    """Return the path of a new directory, named by the seconds since 1970, or the next free number.

    Servers load the directory with the highest number.
    """
    number = int(time.time())
    while os.path.exists(os.path.join(base, str(number))):
        number += 1
    return os.path.join(os.path.abspath(base), str(number))


def signature_defs(receiver: ServingInputReceiver, export_outputs: Mapping[str, ExportOutput]) -> dict[str, Any]:
    """Return the signatures by name.

    The first `PredictOutput` has another signature ``predict``, unless an output has that name. Impossible signatures,
    such as a classification without serialized examples, are left out with a warning.

    Args:
        receiver: the tensors that are fed.
        export_outputs: the outputs of the model.

    Raises:
        ConfigError: No signature is left; the message has the reasons.
    """
    outputs = dict(export_outputs)
    predicting = [output for output in outputs.values() if isinstance(output, PredictOutput)]
    if predicting:
        outputs.setdefault("predict", predicting[0])
    feeds = {"": receiver_tensors_by_name(receiver.receiver_tensors)}
    for name, tensors in (receiver.receiver_tensors_alternatives or {}).items():
        feeds[f":{name}"] = receiver_tensors_by_name(tensors)
    signatures: dict[str, Any] = {}
    reasons = []
    for suffix, tensors in feeds.items():
        for name, output in outputs.items():
            try:
                signatures[name + suffix] = output.as_signature_def(tensors)
            except ConfigError as error:
                reasons.append(f"{name + suffix}: {error}")
    if not signatures:
        raise ConfigError(f"the model has no possible signature: {'; '.join(reasons)}")
    for reason in reasons:
        logger.warning(f"Not exported: {reason}")
    return signatures


def _copy_extra(assets: Mapping[str, str], directory: str) -> None:
    for name, source in assets.items():
        target = os.path.join(directory, _ASSETS_EXTRA, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(source, target)
