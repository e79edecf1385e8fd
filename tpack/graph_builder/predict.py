"""Prediction towers on the variables of a training tower."""

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from tpack.graph_builder.compiled import TowerCompiler, build_watched
from tpack.tower.context import PredictTowerContext
from tpack.tower.devices import resolve_device
from tpack.tower.tower_func import TowerFunc, TowerHandle
from tpack.utils.validation import check_arguments


@check_arguments
def build_predict_tower(
    tower_func: TowerFunc,
    inputs: Sequence[tf.Tensor] | Callable[[], Sequence[tf.Tensor]],
    *,
    name: str,
    device: str | int = "",
    vs_name: str = "",
    compiler: TowerCompiler | None = None,
) -> TowerHandle:
    """Call ``tower_func`` in a prediction tower, and return the handle of the tower.

    Args:
        tower_func: the model.
        inputs: one tensor for each entry of its signature, or a function that makes them inside the tower.
        name: the name scope of the tower, unique in the model.
        device: the device; a GPU becomes the logical CPU device of its number on a machine without GPUs.
        vs_name: the variable scope of the training tower whose variables are used; empty for the main one.
        compiler: records the operations for XLA; call its ``mark`` with the outputs to compile.

    Raises:
        TowerError: The name is taken, or the number of inputs is wrong.
        TowerMismatchError: The model uses a variable that training does not have.
        DeviceError: The machine has GPUs, but not this one.

    Source:
        ``SimplePredictBuilder`` of tensorpack.
    """
    tower = PredictTowerContext(name, vs_name, device=resolve_device(device) or None, reuse=True)
    return build_watched(tower_func, tower, inputs if callable(inputs) else lambda: inputs, compiler)
