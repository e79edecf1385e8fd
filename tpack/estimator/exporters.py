"""The export of a model as a SavedModel, and exporters: after each evaluation, at the end, or if it is the best.

A SavedModel is in a directory named by the time, with a signature for each pair of an output and a way to feed it.
"""

import abc
import glob
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import tensorflow.compat.v1 as tf
from google.protobuf.message import DecodeError

from tpack.errors import ConfigError
from tpack.estimator.building import BuiltModel, ModelParts
from tpack.estimator.inputs import ServingInputReceiver, receiver_tensors_by_name
from tpack.estimator.session import add_default_saver, restore
from tpack.estimator.spec import ExportOutput, PredictOutput
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.utils import logger
from tpack.utils.fs import atomic_path
from tpack.utils.validation import check_arguments, check_count, check_function, check_text

Results = Mapping[str, Any]


class ExportableModel(Protocol):
    """The part of an `Estimator` that exporters use."""

    @property
    def model_dir(self) -> str:
        """The directory of the model."""

    @property
    def export_saved_model(self) -> Callable[..., str]:
        """The function that writes a SavedModel and returns its path."""


class Exporter(abc.ABC):
    """A rule for the export of evaluated models.

    Source:
        ``tf.estimator.Exporter`` of TensorFlow 1.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name of the directory of exports, in ``export`` of the model's directory."""

    @abc.abstractmethod
    def export(
        self,
        estimator: ExportableModel,
        export_path: str,
        checkpoint_path: str,
        eval_result: Results,
        is_the_final_export: bool,
    ) -> str | None:
        """Export the model, or do nothing.

        Args:
            estimator: the `Estimator`.
            export_path: the directory of this exporter.
            checkpoint_path: the evaluated checkpoint.
            eval_result: the result of the evaluation.
            is_the_final_export: whether training has ended.

        Returns:
            The path of the written model, or None.
        """


@check_arguments
class LatestExporter(Exporter):
    """An exporter after each evaluation, which keeps the newest models.

    Args:
        name: the name of the directory.
        serving_input_receiver_fn: this and the next two as for `Estimator.export_saved_model`.
        assets_extra: see there.
        as_text: see there.
        exports_to_keep: the number of models to keep; None keeps all.

    Raises:
        ConfigError: The name is empty, or ``exports_to_keep`` is not positive.

    Source:
        The class of this name in ``tf.estimator``.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], ServingInputReceiver],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        if exports_to_keep is not None:
            check_count(self, "exports_to_keep", exports_to_keep)
        self._name = check_text(self, "name", name)
        self._receive = serving_input_receiver_fn
        self._assets_extra = assets_extra
        self._as_text = as_text
        self._exports_to_keep = exports_to_keep

    @property
    def name(self) -> str:
        """The name of the directory."""
        return self._name

    def export(
        self,
        estimator: ExportableModel,
        export_path: str,
        checkpoint_path: str,
        eval_result: Results,
        is_the_final_export: bool,
    ) -> str | None:
        """Export the model if it is time, and delete the oldest ones beyond the number to keep."""
        if not self._is_due(estimator, eval_result, is_final=is_the_final_export):
            return None
        path = estimator.export_saved_model(
            export_path,
            self._receive,
            assets_extra=self._assets_extra,
            as_text=self._as_text,
            checkpoint_path=checkpoint_path,
        )
        exports = sorted((int(name), name) for name in os.listdir(export_path) if name.isdigit())
        if self._exports_to_keep is not None:
            for _, name in exports[: -self._exports_to_keep]:
                shutil.rmtree(os.path.join(export_path, name))
        return path

    def _is_due(self, estimator: ExportableModel, result: Results, *, is_final: bool) -> bool:
        """Tell whether to export the model after this evaluation; subclasses override it."""
        del estimator, result, is_final
        return True


@check_arguments
class FinalExporter(LatestExporter):
    """An exporter after the last evaluation.

    Args:
        name: this and the others as for `LatestExporter`.
        serving_input_receiver_fn: see there.
        assets_extra: see there.
        as_text: see there.

    Raises:
        ConfigError: The name is empty.

    Source:
        The class of this name in ``tf.estimator``.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], ServingInputReceiver],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep=None)

    def _is_due(self, estimator: ExportableModel, result: Results, *, is_final: bool) -> bool:
        return is_final


def loss_smaller(best_eval_result: Results, current_eval_result: Results) -> bool:
    """Tell whether the current result has a smaller ``loss`` than the best one.

    Raises:
        ConfigError: A result has no loss.

    Source:
        The default comparison of ``tf.estimator.BestExporter``.
    """
    for result in (best_eval_result, current_eval_result):
        if "loss" not in result:
            raise ConfigError(f"loss_smaller got a result of {', '.join(result)}: expected a loss")
    return bool(current_eval_result["loss"] < best_eval_result["loss"])


@check_arguments
class BestExporter(LatestExporter):
    """An exporter after each evaluation that is better than all before, which keeps the newest models.

    Args:
        name: this as for `LatestExporter`.
        serving_input_receiver_fn: see there.
        event_file_pattern: a pattern in the model's directory, such as ``"eval/*.tfevents.*"``, of results of earlier
            runs to compare with. None compares with those of this exporter alone.
        compare_fn: takes ``best_eval_result`` and ``current_eval_result``; tells whether the latter is better.
        assets_extra: see there.
        as_text: see there.
        exports_to_keep: see there.

    Raises:
        ConfigError: The name is empty, ``exports_to_keep`` is not positive, or a result has no loss to compare.

    Source:
        The class of this name in ``tf.estimator``.
    """

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Any = None,
        event_file_pattern: str | None = None,
        compare_fn: Callable[..., bool] = loss_smaller,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
        self._pattern = event_file_pattern
        self._is_better = compare_fn
        self._best: Results | None = None

    def _is_due(self, estimator: ExportableModel, result: Results, *, is_final: bool) -> bool:
        if self._best is None and self._pattern is not None:
            self._best = self._best_before(estimator.model_dir, int(result["global_step"]))
        if self._best is not None and not self._is_better(best_eval_result=self._best, current_eval_result=result):
            return False
        self._best = result
        return True

    def _best_before(self, model_dir: str, step: int) -> Results | None:
        """Return the best of the results in event files before the global step of the current one."""
        best: Results | None = None
        for path in sorted(glob.glob(os.path.join(model_dir, self._pattern or ""))):
            for found_at, result in results_in(path):
                if found_at >= step:
                    continue
                if best is None or self._is_better(best_eval_result=best, current_eval_result=result):
                    best = result
        return best


def results_in(path: str) -> Iterator[tuple[int, Results]]:
    """Yield (global step, scalars) of an event file; warn at an event that a killed run left incomplete, and stop."""
    try:
        for event in tf.train.summary_iterator(path):
            result = {value.tag: value.simple_value for value in event.summary.value}
            if result:
                yield int(event.step), result
    except (tf.errors.OpError, DecodeError) as error:
        logger.warning(f"The rest of the damaged event file {path} is ignored: {error}")


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
