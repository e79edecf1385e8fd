"""The signatures of an exported model: each of its outputs from each way to feed it."""

from collections.abc import Mapping
from typing import Any

from tpack.errors import ConfigError
from tpack.estimator.export_outputs import ExportOutput, PredictOutput
from tpack.estimator.serving_input import ServingInputReceiver, receiver_tensors_by_name
from tpack.utils import logger


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
