"""`ModelFlops`: the floating-point operations of a step, counted from the operations that one step runs."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.graph_copy import op_kinds
from tpack.step.step_timer import StepTimer
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_number

Shape: TypeAlias = Sequence[int]
_DEPTHWISE = "DepthwiseConv2dNative"
_FUSED_DEPTH = 4
"""The most operations that TensorFlow makes one of."""
_OF_ONEDNN = re.compile("^_(Mkl)?(Native)?(Fused)?")
"""How the types of rewritten operations begin."""
_LABEL = re.compile(r" = (\w+)\((.*)\)")


@check_arguments
class ModelFlops(Callback):
    """Report the floating-point operations of a step, those per second, and the share of the devices' peak (MFU).

    Counted are products of matrices and convolutions, forward and backward, of all towers of this process, a
    multiplication and an addition as two: the rest is some percent in most models. Shapes and repetitions are those of
    one step of each epoch, the first one but for that of a run, which is traced and so takes longer. Parts that do not
    run, such as gradients of frozen layers, do not count, and activations that are computed again do. Operations that
    XLA compiles are not seen.

    After each epoch the statistics are ``flops/step``, ``flops/sec``, without the time between epochs, and with
    ``peak_flops`` ``flops/mfu``.

    Args:
        peak_flops: the operations per second of all devices of this process together, in the dtype of the computation,
            such as ``8 * 312e12`` for eight A100 in bfloat16.

    Raises:
        ConfigError: ``peak_flops`` is not positive.

    Example:
        ``ModelFlops(peak_flops=989e12)``

    Source:
        Chowdhery et al., PaLM, 2022, appendix B, for the share of the peak.
    """

    _chief_only = False

    def __init__(self, peak_flops: float | None = None) -> None:
        if peak_flops is not None:
            check_number(self, "peak_flops", peak_flops, 0, is_low_allowed=False)
        self._peak = peak_flops
        self._timer = StepTimer()
        self._first_step = 0
        self._num_traced = 0
        self._is_due = False
        self._flops: float | None = None
        self._steps_per_sec: float | None = None
        self._request = tf.train.SessionRunArgs(None, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))

    def _before_train(self) -> None:
        self._first_step = self.global_step

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        is_step = ctx.original_args.fetches is self.trainer.train_op
        if not self._is_due or not is_step or self.global_step == self._first_step:
            return None
        self._num_traced = self.trainer.num_coming
        return self._request

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if self._is_due and self._num_traced and values.run_metadata is not None:
            self._is_due, before = False, self._flops
            self._flops = count_flops(values.run_metadata, self.graph) / self._num_traced
            if self._flops == before:
                return
            if self._flops:
                logger.info(f"A step has {self._flops:.4g} floating-point operations in products and convolutions.")
            else:
                logger.warning(f"{self} finds no products and convolutions in a step: they are compiled, or not there.")

    def _with_several_steps(self) -> WithSteps:
        return WithSteps()

    def _before_epoch(self) -> None:
        self._is_due, self._num_traced = True, 0
        self._timer.done(self.local_step)

    def _after_epoch(self) -> None:
        self._steps_per_sec = self._timer.rate(self.local_step)

    def _trigger_epoch(self) -> None:
        if not self._flops or self._steps_per_sec is None:
            return
        monitors, per_sec = self.trainer.monitors, self._flops * self._steps_per_sec
        monitors.put_scalar("flops/step", self._flops)
        monitors.put_scalar("flops/sec", per_sec)
        if self._peak is not None:
            monitors.put_scalar("flops/mfu", per_sec / self._peak)


def count_flops(traced: tf.RunMetadata, graph: tf.Graph) -> float:
    """Return the floating-point operations of the products and convolutions in a traced run.

    Args:
        traced: of a run with ``FULL_TRACE``.
        graph: its graph.
    """
    counts: Counter[str] = Counter()
    shapes: dict[str, Shape] = {}
    labels: dict[str, str] = {}
    for device in traced.step_stats.dev_stats:
        # Streams of GPUs have the same operations once more, as kernels.
        for node in device.node_stats if "stream" not in device.device else ():
            counts[node.node_name] += 1
            labels[node.node_name] = node.timeline_label
            for output in node.output:
                shape = [dim.size for dim in output.tensor_description.shape.dim]
                shapes[f"{node.node_name}:{output.slot}"] = shape
    operations = {op.name: op for op in graph.get_operations()}
    total = 0.0
    for name, count in counts.items():
        op = operations.get(name)
        found = _LABEL.search(labels[name])
        # TensorFlow gives what it makes of a convolution and a bias, for example, the name of the bias.
        is_fused = found is not None and any(kind in found[1] for kind in op_kinds.PRODUCTS)
        product = _product_in(op) if op is not None and is_fused else op
        flops = _flops_of_label(labels[name], name, shapes) if op is None else _flops_of(product, shapes, op)
        total += count * flops
    return total


def _product_in(op: tf.Operation) -> tf.Operation | None:
    """Return the product or convolution that is fused with the operations up to this one."""
    for _ in range(_FUSED_DEPTH):
        if _kind_of(op.type) is not None:
            return op
        if not op.inputs:
            return None
        op = op.inputs[0].op
    return None


def _kind_of(op_type: str) -> str | None:
    """Return the operation forward of which this one is, or computes a gradient; None for one that is not counted."""
    kind = op_type.partition("Backprop")[0]
    return kind if kind in op_kinds.PRODUCTS or kind == "Einsum" else None


def _flops_of(op: tf.Operation | None, shapes: Mapping[str, Shape], ending: tf.Operation) -> float:
    """Return the operations of a product in the graph, of which a fused one has the shape of the last one."""
    if op is None or _kind_of(op.type) is None:
        return 0.0

    def shape_of(tensor: tf.Tensor) -> Shape | None:
        static = tensor.shape
        return static.as_list() if static.is_fully_defined() else shapes.get(tensor.name)

    result = shape_of(op.outputs[0]) or shape_of(ending.outputs[0])
    equation = op.get_attr("equation").decode() if op.type == "Einsum" else ""
    return _twice_the_products(op.type, result, [shape_of(tensor) for tensor in op.inputs], equation)


def _flops_of_label(label: str, name: str, shapes: Mapping[str, Shape]) -> float:
    """Return the operations of a product in a function, such as the body of a loop, from its line in the trace."""
    found = _LABEL.search(label)
    op_type = "" if found is None else _OF_ONEDNN.sub("", found[1])
    if found is None or op_type == "Einsum" or _kind_of(op_type) is None:
        return 0.0
    inputs = [each if ":" in each else f"{each}:0" for each in found[2].split(", ")]
    return _twice_the_products(op_type, shapes.get(f"{name}:0"), [shapes.get(each) for each in inputs])


def _twice_the_products(
    op_type: str, result: Shape | None, inputs: Sequence[Shape | None], equation: str = ""
) -> float:
    """Return twice the number of multiplications; 0 where a shape is not known."""
    kind = _kind_of(op_type)
    if kind in op_kinds.MATRIX_PRODUCTS or kind == "Einsum":
        known = [shape for shape in inputs if shape is not None]
        if result is None or len(known) < 2:
            return 0.0
        sizes = math.prod(known[0]) * math.prod(known[1]) * math.prod(result)
        is_einsum = kind == "Einsum"
        return _flops_of_einsum(equation, known) if is_einsum else 2.0 * math.sqrt(sizes / math.prod(result[:-2]))
    kernel = result if op_type.endswith(("Filter", "FilterV2")) else inputs[1]
    pixels = inputs[2] if len(inputs) == 3 else result
    if kernel is None or pixels is None:
        return 0.0
    per_output = math.prod(kernel[:2]) if kind == _DEPTHWISE else math.prod(kernel[:-1])
    return 2.0 * math.prod(pixels) * per_output


def _flops_of_einsum(equation: str, shapes: Sequence[Shape]) -> float:
    """Return twice the product of all sizes; 0 for an equation with an ellipsis."""
    labels = equation.partition("->")[0].split(",")
    if len(shapes) != 2 or "." in equation:
        return 0.0
    sizes = dict(zip("".join(labels), [size for shape in shapes for size in shape], strict=True))
    return 2.0 * math.prod(sizes.values())
