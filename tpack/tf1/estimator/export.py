"""``tf.estimator.export``: the outputs of an exported model, and its inputs."""

from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from tpack.estimator import inputs
from tpack.estimator.spec import Tensors
from tpack.tf1.name_table import look_up

_SINGLE_FEATURE = "feature"


class ServingInputReceiver(inputs.ServingInputReceiver):
    """The features of a served model, and the tensors that are fed; a single feature is called ``feature``.

    Args:
        features: a dict of tensors, or one tensor.
        receiver_tensors: as for `tpack.estimator.ServingInputReceiver`.
        receiver_tensors_alternatives: as for `tpack.estimator.ServingInputReceiver`.
    """

    __slots__ = ()

    def __new__(
        cls,
        features: Tensors,
        receiver_tensors: Tensors,
        receiver_tensors_alternatives: Mapping[str, Tensors] | None = None,
    ) -> "ServingInputReceiver":
        """Name a single feature."""
        named = {_SINGLE_FEATURE: features} if isinstance(features, tf.Tensor | tf.SparseTensor) else features
        return super().__new__(cls, named, receiver_tensors, receiver_tensors_alternatives)


class TensorServingInputReceiver(inputs.ServingInputReceiver):
    """The one tensor of features of a served model, and the tensors that are fed."""

    __slots__ = ()


__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "tpack.estimator": (
            "ClassificationOutput ExportOutput PredictOutput RegressionOutput build_parsing_serving_input_receiver_fn "
            "build_raw_serving_input_receiver_fn"
        )
    },
    own=("ServingInputReceiver", "TensorServingInputReceiver"),
)
