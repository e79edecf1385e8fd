"""Sizes of the variables and operations of a model."""

from collections.abc import Iterable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.utils import logger


def tensor_description(var: Any) -> str:
    """Return dtype and shape of a variable in one word, such as ``float32_ref 3x3``."""
    return f"({var.dtype.base_dtype.name} {'x'.join(str(size) for size in var.shape.as_list())})"


def analyze_ops(graph: tf.Graph, print_info: bool = False) -> int:
    """Return how many elements the known outputs of all operations have together.

    Args:
        graph: the graph.
        print_info: write a line for each operation to the log.
    """
    total = 0
    for operation in graph.get_operations():
        sizes = [_num_elements(output) for output in operation.outputs]
        total += sum(sizes)
        if print_info:
            logger.info(f"{operation.name}\t->\t{', '.join(map(str, operation.outputs))}\t{sum(sizes)} elements")
    return total


def analyze_vars(variables: Iterable[tf.Variable], print_info: bool = False) -> tuple[int, int]:
    """Return how many elements variables have together, and how many bytes.

    Args:
        variables: the variables.
        print_info: write a line for each of them, and one for all, to the log.
    """
    num_elements = num_bytes = 0
    for variable in variables:
        size = _num_elements(variable)
        num_elements += size
        num_bytes += size * variable.dtype.base_dtype.size
        if print_info:
            logger.info(f"{variable.name} {tensor_description(variable)} [{size}]")
    if print_info:
        logger.info(f"{num_elements} elements in {num_bytes} bytes of variables.")
    return num_elements, num_bytes


def _num_elements(tensor: Any) -> int:
    return tensor.shape.num_elements() or 0 if tensor.shape.rank is not None else 0
