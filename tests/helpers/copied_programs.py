"""Towers of examples that are no `ModelDesc`, built by copy and without: two networks, strategies, estimators."""

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.examples import load_example
from tpack.distribute.strategies import MirroredStrategy
from tpack.estimator.replicate_model_fn import replicate_model_fn
from tpack.graph_builder.cost import GradientOptions, make_grad_fn
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import build_towers
from tpack.graph_copy.towers import TowerBuilding
from tpack.tower.devices import LeastLoadedDeviceSetter
from tpack.tower.tower_func import TowerFunc

DEVICES = [f"/device:CPU:{k}" for k in range(3)]


def _two_networks(example: str) -> Callable[[TowerBuilding], None]:
    """Return what builds as the trainer of `gan_trainer.py` does."""

    def build(how: TowerBuilding) -> None:
        model = load_example(example).Model()
        signature = model.get_input_signature()
        whole = [tf.placeholder(spec.dtype, spec.shape, f"whole_{spec.name}") for spec in signature]

        def costs(*inputs: Any) -> list[tf.Tensor]:
            model.build_graph(*inputs)
            return [model.g_loss, model.d_loss]

        tower_func = TowerFunc(costs, signature)
        setters = [LeastLoadedDeviceSetter(device, DEVICES) for device in DEVICES]
        shared = [False] * len(DEVICES)
        towers = build_towers(lambda: tower_func(*map(tf.identity, whole)), setters, shared, tower_building=how)
        for losses, optimizer, scope in zip(
            zip(*towers.outputs, strict=True), model.get_optimizers(), ("gen", "discrim"), strict=True
        ):
            load_example("gan_trainer").minimize(optimizer, tf.add_n(losses), scope)

    return build


def _strategy(how: TowerBuilding) -> None:
    example = load_example("strategy_digits")
    example.build(MirroredStrategy(num_gpus=len(DEVICES), tower_building=how), len(DEVICES))


def _estimator(how: TowerBuilding) -> None:
    model_fn = replicate_model_fn(load_example("digits_estimator").model_fn, devices=DEVICES, tower_building=how)
    features = {"image": tf.placeholder(tf.float32, [6, 64])}
    params = {"hidden_units": [8], "learning_rate": 1e-3}
    model_fn(features, tf.placeholder(tf.int32, [6]), "train", params)


def _plain_loop(how: TowerBuilding) -> None:
    example = load_example("plain_loop")
    optimizer = tf.train.AdamOptimizer(1e-3)
    whole = [tf.placeholder(spec.dtype, spec.shape, f"whole_{spec.name}") for spec in example.SIGNATURE]
    tower_func = TowerFunc(example.model, example.SIGNATURE)
    grad_fn = make_grad_fn(lambda: [*map(tf.identity, whole)], tower_func, lambda: optimizer, GradientOptions())
    SyncMultiGPUReplicatedBuilder(len(DEVICES), tower_building=how).build(grad_fn, lambda: optimizer)


PROGRAMS: dict[str, Callable[[TowerBuilding], None]] = {
    **{name: _two_networks(name) for name in ("dcgan", "wgan_gp", "image2image")},
    "strategy_digits": _strategy,
    "digits_estimator": _estimator,
    "plain_loop": _plain_loop,
}
"""What builds each in the current graph, its towers in the way that it is given."""


def build_program(build: Callable[[TowerBuilding], None], how: TowerBuilding) -> tf.Graph:
    """Return the graph of one of `PROGRAMS`."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        tf.train.get_or_create_global_step()
        build(how)
    return graph
