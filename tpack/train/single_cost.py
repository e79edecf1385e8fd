"""Trainers of models with one cost and one optimizer, on whatever builder."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import ConfigError
from tpack.graph_builder.base import BuildResult, GradFn, GraphBuilder, OptimizerFn
from tpack.graph_builder.cost import GradientOptions, make_grad_fn
from tpack.input_source.base import InputSource
from tpack.tower.func import TowerFunc
from tpack.train.replica_sync import ReplicaSync
from tpack.train.tower_trainer import TowerTrainer


class SingleCostTrainer(TowerTrainer):
    """Base of trainers that minimise one cost: `setup_graph` builds everything from four things.

    Attributes:
        COLOCATE_GRADIENTS_WITH_OPS: compute gradients on the device of the forward op.
        GATE_GRADIENTS: wait for all gradients before any is used.
        AGGREGATION_METHOD: how TensorFlow adds up the gradients of a tensor that is used several times.
    """

    COLOCATE_GRADIENTS_WITH_OPS = True
    GATE_GRADIENTS = False
    AGGREGATION_METHOD = tf.AggregationMethod.DEFAULT

    def setup_graph(
        self,
        input_signature: Sequence[Any],
        input: InputSource,
        get_cost_fn: Callable[..., Any],
        get_opt_fn: OptimizerFn,
    ) -> None:
        """Build the training graph.

        Args:
            input_signature: what the inputs are: ``tf.TensorSpec`` each.
            input: where data comes from.
            get_cost_fn: builds the model from the input tensors and returns the cost.
            get_opt_fn: returns the optimizer; it is called once, after the first tower's cost was built.

        Raises:
            ConfigError: An argument is of the wrong type.
            GraphBuildError: The cost, the variables or the optimizer cannot be trained.
            TowerMismatchError: The towers differ.
        """
        if not isinstance(input, InputSource):
            raise ConfigError(f"input must be an InputSource, got {input!r}")
        if not callable(get_opt_fn):
            raise ConfigError(f"get_opt_fn must be a function that returns the optimizer, got {get_opt_fn!r}")
        with self.graph.as_default():
            self.tower_func = TowerFunc(get_cost_fn, input_signature)
            self.register_callback(input.setup(self.tower_func.input_signature))
            optimizer_fn = _called_once(get_opt_fn)
            options = GradientOptions(self.COLOCATE_GRADIENTS_WITH_OPS, self.GATE_GRADIENTS, self.AGGREGATION_METHOD)
            grad_fn = make_grad_fn(input.get_input_tensors, self.tower_func, optimizer_fn, options)
            self.register_callback(self._setup_graph(grad_fn, optimizer_fn))

    @abstractmethod
    def _setup_graph(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> list[Callback]:
        """Set ``train_op`` and return the callbacks that the graph needs."""


class BuilderTrainer(SingleCostTrainer):
    """Trains on any `GraphBuilder`.

    Args:
        builder: decides how the model is replicated and how gradients are reduced.

    Raises:
        ConfigError: It is not a `GraphBuilder`.

    Example:
        launch_train_with_config(config, BuilderTrainer(MyBuilder(...)))
    """

    def __init__(self, builder: GraphBuilder) -> None:
        super().__init__()
        if not isinstance(builder, GraphBuilder):
            raise ConfigError(f"builder must be a GraphBuilder, got {builder!r}")
        self.builder = builder

    @property
    def devices(self) -> tuple[str, ...]:
        """The canonical device of each tower."""
        return self.builder.devices

    def _setup_graph(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> list[Callback]:
        result: BuildResult = self.builder.build(grad_fn, optimizer_fn)
        self.train_op = result.train_op
        if result.init_op is not None:
            self._init_ops.append(result.init_op)
            self._set_by_init_ops.extend(result.copies)
        return [] if result.sync_op is None else [ReplicaSync(result.sync_op)]


def _called_once(function: OptimizerFn) -> OptimizerFn:
    results: list[Any] = []

    def cached() -> Any:
        if not results:
            results.append(function())
        return results[0]

    return cached
