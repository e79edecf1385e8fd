"""Checks of training: trainers and reducers against one tower, 16 bits, XLA, and checkpoints.

Every training makes the same steps of a small convolutional network on data made here, which differ between towers. The
mean over K towers must be what one tower computes with all the data.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.errors import ReductionError
from tpack.graph_copy.op_kinds import NETWORK_KERNELS
from tpack.input_source.tensors import TensorInput
from tpack.reduction.autotune.candidates import make_candidate, refusals
from tpack.reduction.base import Reducer
from tpack.selftest.devices import PLACE_ADVICE, Placed, compute_capability, open_session, placed_operations
from tpack.selftest.runner import Finding, Machine, Skipped, Wrong
from tpack.tfutils.sessinit import SaverRestore
from tpack.tower.context import current_tower_context
from tpack.tower.grads import ReduceOp
from tpack.train.single_cost import SingleCostTrainer
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerHierarchical,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

STEPS = 20
_TOWER_BATCH, _PIXELS, _CLASSES = 8, 8, 10
_RATE, _MOMENTUM = 0.05, 0.9
_TOLERANCE, _TOLERANCE_OF_16_BITS = 1e-3, 0.03
_LEAST_CAPABILITY = {"bfloat16": (8, 0), "float16": (5, 3)}
_SUM_SHAPES = ((), (7,), (4099,), (3, 3, 64, 64), (1 << 18,))
_PATTERN = 3
# Beyond it, sums of powers of two are not exact in float32.
_MOST_TOWERS = 22

TRAINERS: dict[str, Callable[[int], SingleCostTrainer]] = {
    "replicated": SyncMultiGPUTrainerReplicated,
    "hierarchical": SyncMultiGPUTrainerHierarchical,
    "parameter server on the CPU": lambda count: SyncMultiGPUTrainerParameterServer(count, "cpu"),
    "parameter server on the devices": lambda count: SyncMultiGPUTrainerParameterServer(count, "gpu"),
    "sharded optimizer": lambda count: SyncMultiGPUTrainerReplicated(count, shard_optimizer=True),
    "accumulated gradients": lambda count: SyncMultiGPUTrainerReplicated(count, accumulate=2),
    "local steps": lambda count: SyncMultiGPUTrainerReplicated(count, sync_every_steps=4),
    "asynchronous": AsyncMultiGPUTrainer,
}
_INEXACT = ("accumulated gradients", "local steps", "asynchronous")
"""Trainers whose steps are no steps of one tower: their cost falls."""


@dataclass
class Trained:
    """The results of a training.

    Attributes:
        costs: the mean cost of each step.
        weights: the weights of each tower, by their names inside of it.
        places: where the operations of a step were, by their names.
        scopes: the name scope of each tower.
    """

    costs: list[float] = field(default_factory=list)
    weights: list[dict[str, np.ndarray]] = field(default_factory=list)
    places: dict[str, Placed] = field(default_factory=dict)
    scopes: list[str] = field(default_factory=list)


class _Record(Callback):
    """Writes down the costs, and in the end the weights and the places of the operations.

    Args:
        trainer: the trainer, whose towers are built.
    """

    def __init__(self, trainer: SingleCostTrainer) -> None:
        self.trained = Trained()
        self._towers = trainer.towers.training()

    def _before_run(self, ctx: tf.train.SessionRunContext) -> Any:
        return next(iter(self.trainer.statistics.values()))

    def _after_run(self, ctx: tf.train.SessionRunContext, values: Any) -> None:
        self.trained.costs.append(float(values.results))

    def _trigger_epoch(self) -> None:
        """Take the weights of the epoch; a step for the places follows in the end."""
        trained, session = self.trained, self.trainer.sess
        trained.weights = [_weights(session, tower) for tower in self._towers]
        trained.scopes = [tower.ns_name for tower in self._towers]

    def _after_train(self) -> None:
        if self.trained.weights:
            self.trained.places = placed_operations(self.trainer.sess, self.trainer.train_op)


def _weights(session: tf.Session, tower: Any) -> dict[str, np.ndarray]:
    variables = tower.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
    names = [variable.op.name.removeprefix(f"{tower.vs_name}/") for variable in variables]
    return dict(zip(names, session.run(variables), strict=True))


def _weight(name: str, *shape: int) -> tf.Variable:
    values = np.random.default_rng(len(name)).normal(size=shape, scale=0.3)
    return tf.get_variable(name, shape, tf.float32, tf.constant_initializer(values))


def _convolutional_cost(image: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    features = tf.nn.conv2d(image, _weight("kernel", 3, 3, 3, 16), 1, "SAME")
    features = tf.nn.relu(tf.nn.bias_add(features, _weight("offset", 16)))
    features = tf.reshape(tf.nn.max_pool2d(features, 2, 2, "SAME"), [-1, 16 * (_PIXELS // 2) ** 2])
    logits = tf.matmul(features, _weight("last", 16 * (_PIXELS // 2) ** 2, _CLASSES))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
    return tf.reduce_mean(losses, name="cost")


def _dense_cost(image: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    """Return the cost of a network whose kernels add in a fixed order on every device."""
    hidden = tf.tanh(tf.matmul(tf.reshape(image, [-1, 3 * _PIXELS**2]), _weight("first", 3 * _PIXELS**2, 32)))
    errors = tf.matmul(hidden, _weight("second", 32, _CLASSES)) - tf.one_hot(label, _CLASSES)
    return tf.reduce_mean(tf.square(errors), name="cost")


def train(
    trainer: SingleCostTrainer,
    num_shards: int,
    *,
    cost: Callable[..., tf.Tensor] = _convolutional_cost,
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> Trained:
    """Make `STEPS` steps in a new graph, and return the results.

    Args:
        trainer: made in the graph that is current.
        num_shards: the number of towers that share the data; the batch of one tower has them all.
        cost: the model.
        callbacks: others besides.
        options: more arguments of ``trainer.train``.
    """
    images, labels = _data(num_shards)
    signature = [
        tf.TensorSpec([None, *images.shape[1:]], tf.float32, "image"),
        tf.TensorSpec([None], tf.int32, "label"),
    ]

    def shard() -> list[tf.Tensor]:
        tower = current_tower_context()
        rows = len(images) // tower.total
        part = slice(tower.index * rows, (tower.index + 1) * rows)
        return [tf.constant(images[part]), tf.constant(labels[part])]

    trainer.setup_graph(
        signature, TensorInput(shard, size=STEPS), cost, lambda: tf.train.MomentumOptimizer(_RATE, _MOMENTUM)
    )
    record = _Record(trainer)
    numbers = {"steps_per_epoch": STEPS, "max_epoch": 1, **options}
    trainer.train_with_defaults(callbacks=[record, *callbacks], monitors=[], extra_callbacks=[], **numbers)
    return record.trained


@lru_cache
def _data(num_shards: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    rows = num_shards * _TOWER_BATCH
    images = rng.normal(size=(rows, _PIXELS, _PIXELS, 3)).astype(np.float32)
    return images, rng.integers(0, _CLASSES, rows, dtype=np.int32)


@contextmanager
def _full_float32() -> Iterator[None]:
    """Multiply in all bits of float32, which GPUs from A100 on round by default."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)


@lru_cache
def _one_tower(num_shards: int, cost: Callable[..., tf.Tensor]) -> Trained:
    """Return the training of one tower on the first device with the data of all."""
    with _full_float32(), tf.Graph().as_default():
        return train(SimpleTrainer(), num_shards, cost=cost)


def check_trainer(machine: Machine, name: str) -> Finding:
    """Compare a trainer with one tower.

    Raises:
        Wrong: Weights, costs or places differ from the right ones.
        Skipped: The trainer does not support this number of devices.
    """
    count = len(machine.devices)
    make = TRAINERS[name]
    with _full_float32(), tf.Graph().as_default():
        try:
            trainer = make(count)
        except ReductionError as reason:
            raise Skipped(str(reason)) from reason
        return _compared(machine, train(trainer, count), is_exact=name not in _INEXACT)


def check_reducer(machine: Machine, name: str) -> Finding:
    """Compare the sums of a reducer with the right ones, and a training with it with one tower.

    Raises:
        Wrong: Sums, weights, costs or places differ from the right ones.
        Skipped: The reducer does not support these devices.
    """
    count = len(machine.devices)
    if count == 1:
        raise Skipped("one device reduces nothing")
    if name == "nccl" and not machine.has_gpus:
        raise Skipped("NCCL is for GPUs")
    refused = refusals([name], machine.devices, ["float32"])
    if refused:
        raise Skipped(refused[name])
    check_sums(machine, make_candidate(name, machine.devices))
    with _full_float32(), tf.Graph().as_default():
        trainer = SyncMultiGPUTrainerReplicated(count, mode=make_candidate(name, machine.devices))
        return _compared(machine, train(trainer, count))


def check_sums(machine: Machine, reducer: Reducer) -> None:
    """Reduce known numbers; raise `Wrong` with the device whose numbers are missing.

    Device k adds 2 to the power of k, times a pattern, so a sum shows which devices are in it.
    """
    count = min(len(machine.devices), _MOST_TOWERS)
    graph = tf.Graph()
    with graph.as_default():
        # TensorFlow computes with constants in advance, on the host.
        one = tf.placeholder(tf.float32, [])
        towers = []
        for k, device in enumerate(machine.devices[:count]):
            with tf.device(device):
                towers.append([one * float(2**k) * tf.constant(_pattern(shape)) for shape in _SUM_SHAPES])
        reduced = reducer.reduce(towers, ReduceOp.SUM)
    with open_session(graph) as session:
        sums = session.run(reduced, {one: 1.0})
    for device, tower in zip(machine.devices, sums, strict=False):
        for total, shape in zip(tower, _SUM_SHAPES, strict=True):
            missing = (2**count - 1) - total / _pattern(shape)
            if np.any(missing):
                raise Wrong(f"its sums on {device} are wrong: {_what_is_missing(machine, missing)}", _REDUCER_ADVICE)


_REDUCER_ADVICE = "Train with another mode, such as mode='cpu', and report it with this page."


def _pattern(shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape, dtype=int))
    return (1 + np.arange(size, dtype=np.float32) % _PATTERN).reshape(shape)


def _what_is_missing(machine: Machine, missing: np.ndarray) -> str:
    first = float(missing.flat[np.flatnonzero(missing)[0]])
    if first == int(first) and 0 < first < 2 ** len(machine.devices):
        lost = [device for k, device in enumerate(machine.devices) if int(first) >> k & 1]
        return f"the part of {', '.join(lost)} is missing"
    return f"one is off by {first:g}, which is no device's part"


def _compared(
    machine: Machine,
    trained: Trained,
    *,
    is_exact: bool = True,
    has_places: bool = True,
    cost: Callable[..., tf.Tensor] = _convolutional_cost,
) -> Finding:
    """Check the results of a training on all devices.

    Args:
        machine: the devices.
        trained: the results.
        is_exact: whether its steps are those of one tower.
        has_places: whether operations have the names of their towers.
        cost: the model.
    """
    if has_places:
        _refuse_misplaced(machine, trained)
    if not np.all(np.isfinite(trained.costs)):
        raise Wrong(f"the cost of step {int(np.argmin(np.isfinite(trained.costs))) + 1} is not finite")
    _refuse_different(machine, trained)
    if not is_exact:
        if not trained.costs[-1] < trained.costs[0]:
            raise Wrong(f"the cost does not fall: {trained.costs[0]:.4g}, and {trained.costs[-1]:.4g} in the end")
        return Finding(f"the cost falls from {trained.costs[0]:.3f} to {trained.costs[-1]:.3f}")
    off_by = _off_by(trained, _one_tower(len(machine.devices), cost))
    if not off_by < _TOLERANCE:
        advice = "The check of arithmetic tells whether a device computes wrong. Report it with this page."
        raise Wrong(f"its weights differ from those of one tower by {off_by:.2g} of their size", advice)
    return Finding(f"{STEPS} steps, off by {off_by:.1g}", {"off_by": off_by})


def _off_by(trained: Trained, right: Trained) -> float:
    """Return the largest difference of weights, relative to the largest weight."""
    found = 0.0
    for name, value in right.weights[0].items():
        difference = np.max(np.abs(trained.weights[0][name] - value))
        found = max(found, float(difference / np.max(np.abs(value))))
    return found


def _refuse_different(machine: Machine, trained: Trained) -> None:
    for device, weights in zip(machine.devices, trained.weights, strict=True):
        for name, value in weights.items():
            if value.tobytes() != trained.weights[0][name].tobytes():
                text = f"after {STEPS} steps {name} on {device} is not that on {machine.devices[0]}"
                raise Wrong(text, _REDUCER_ADVICE)


def _refuse_misplaced(machine: Machine, trained: Trained) -> None:
    """Raise `Wrong` for a tower that computes anywhere but on its device."""
    for device, scope in zip(machine.devices, trained.scopes, strict=True):
        inside = {name: each for name, each in trained.places.items() if name.startswith(f"{scope}/")}
        found = {each.device for each in inside.values() if NETWORK_KERNELS.match(each.type)}
        if not found:
            raise Wrong(f"nothing of the tower for {device} computes: its gradients are lost", _REDUCER_ADVICE)
        if found != {device}:
            places = ", ".join(sorted(found - {device}))
            raise Wrong(f"the tower for {device} computes on {places}, silently", PLACE_ADVICE)


def check_precision(machine: Machine, name: str) -> Finding:
    """Compare the first cost of a training in 16 bits with that in float32, and see that it falls.

    Raises:
        Wrong: Weights, costs or places differ from the right ones.
        Skipped: The GPUs do not compute in this dtype.
    """
    count, least = len(machine.devices), _LEAST_CAPABILITY[name]
    has = compute_capability() if machine.has_gpus else least
    if has < least:
        raise Skipped(f"it needs compute capability {least[0]}.{least[1]}, and a GPU has {has[0]}.{has[1]}")
    with tf.Graph().as_default():
        trained = train(SyncMultiGPUTrainerReplicated(count, precision=name), count)
    found = _compared(machine, trained, is_exact=False)
    right = _one_tower(count, _convolutional_cost).costs[0]
    off_by = abs(trained.costs[0] / right - 1)
    if not off_by < _TOLERANCE_OF_16_BITS:
        raise Wrong(f"the first cost is {trained.costs[0]:.4g}, in float32 {right:.4g}", _REDUCER_ADVICE)
    return Finding(f"{found.text}; the first cost is off by {off_by:.1g}", {"off_by": off_by})


def check_compiled(machine: Machine) -> Finding:
    """Compare a training that XLA compiles with one tower.

    Raises:
        Wrong: Weights or costs differ from the right ones.
    """
    count = len(machine.devices)
    with _full_float32(), tf.Graph().as_default():
        trained = train(SyncMultiGPUTrainerReplicated(count, compile="xla"), count, cost=_dense_cost)
    # Clusters have names of their own; places were checked without XLA.
    return _compared(machine, trained, cost=_dense_cost, has_places=False)


def check_checkpoint(machine: Machine) -> Finding:
    """Train at one go, and again from a checkpoint of the middle, and compare the bits.

    Raises:
        Wrong: The bits differ.
    """
    count = len(machine.devices)
    half: Mapping[str, Any] = {"steps_per_epoch": STEPS // 2, "max_epoch": 2}
    with tempfile.TemporaryDirectory(prefix="tpack-selftest") as directory:
        with tf.Graph().as_default():
            saver = ModelSaver(checkpoint_dir=directory)
            whole = train(SyncMultiGPUTrainerReplicated(count), count, cost=_dense_cost, callbacks=[saver], **half)
        with tf.Graph().as_default():
            restored = SaverRestore(f"{directory}/model-{STEPS // 2}")
            again = train(
                SyncMultiGPUTrainerReplicated(count),
                count,
                cost=_dense_cost,
                session_init=restored,
                starting_epoch=2,
                **half,
            )
    _refuse_different(machine, whole)
    for name, value in whole.weights[0].items():
        if value.tobytes() != again.weights[0][name].tobytes():
            text = f"{name} of a resumed training is not that of one without a break"
            raise Wrong(text, "Sums in another order may be the cause: set TF_CUDNN_DETERMINISTIC=1 and try again.")
    return Finding(f"resumed at step {STEPS // 2}, equal bits at step {STEPS}")
