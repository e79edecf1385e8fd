"""Export a model of an Estimator as a SavedModel, in a directory that is named by the time.

It has a signature for each of the model's outputs from each way to feed it.
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

_ASSETS_EXTRA = "assets.extra"


@dataclass(frozen=True)
class ExportTarget:
    """What is written.

    Attributes:
        path: the directory, written all at once.
        assets_extra: path inside ``assets.extra`` of the model to a file that is copied there.
        as_text: write the graph as text.
    """

    path: str
    assets_extra: Mapping[str, str] | None = None
    as_text: bool = False


def export_model(
    parts: ModelParts,
    model: BuiltModel,
    receiver: ServingInputReceiver,
    checkpoint: str,
    target: ExportTarget,
) -> None:
    """Write a model that was built into the current graph.

    Args:
        parts: the model's options.
        model: a model built for prediction.
        receiver: what is fed.
        checkpoint: the prefix of the model's values.
        target: what to write.

    Raises:
        ConfigError: The model offers nothing to export.
        CheckpointError: The checkpoint does not fit the model.
    """
    spec, graph = model.spec, model.global_step.graph
    if not spec.export_outputs:
        raise ConfigError("the model has no export_outputs for prediction, so there is nothing to export")
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
    """Return what the function builds into the current graph.

    Args:
        serving_input_receiver_fn: takes nothing.

    Raises:
        ConfigError: It is no function, or returns something else.
    """
    if not callable(serving_input_receiver_fn):
        raise ConfigError(
            "serving_input_receiver_fn must be a function that returns a ServingInputReceiver, got "
            f"{serving_input_receiver_fn!r}"
        )
    receiver = serving_input_receiver_fn()
    if not isinstance(receiver, ServingInputReceiver):
        raise ConfigError(f"serving_input_receiver_fn must return a ServingInputReceiver, got {receiver!r}")
    return receiver


def new_export_dir(base: str) -> str:
    """Return the path of a directory that does not exist yet, named by the seconds since 1970.

    Servers load the one with the highest number. Of several in one second, each has the next higher one.
    """
    number = int(time.time())
    while os.path.exists(os.path.join(base, str(number))):
        number += 1
    return os.path.join(os.path.abspath(base), str(number))


def signature_defs(receiver: ServingInputReceiver, export_outputs: Mapping[str, ExportOutput]) -> dict[str, Any]:
    """Return the signatures by name.

    Besides those of the model's outputs there is one called ``predict`` for the first `PredictOutput`, if no output has
    that name. A signature that cannot be had from what is fed, such as a classification of anything but serialized
    examples, is left out with a line in the log.

    Args:
        receiver: what is fed.
        export_outputs: what the model offers.

    Raises:
        ConfigError: No signature is left. The message says why.
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
        raise ConfigError(f"the model cannot be served by any signature. {'; '.join(reasons)}")
    for reason in reasons:
        logger.warning(f"Not exported: {reason}")
    return signatures


def _copy_extra(assets: Mapping[str, str], directory: str) -> None:
    for name, source in assets.items():
        target = os.path.join(directory, _ASSETS_EXTRA, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(source, target)
