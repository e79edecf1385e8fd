"""The models of the examples and scripts, built with towers that are copied and without, to be compared.

A program of ``examples/`` that is neither here nor in `copied_programs.py` trains the model of another one, or has one
tower.
"""

import importlib
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.copied_graphs import described
from tests.helpers.examples import load_example
from tpack.errors import GraphBuildError
from tpack.graph_builder.base import GraphBuilder
from tpack.graph_builder.cost import GradientOptions, make_grad_fn
from tpack.graph_builder.model_desc import ModelDesc
from tpack.tower.tower_func import TowerFunc

SCRIPTS = "tests.integration.scripts"


def _script(name: str, model: str = "Model", *args: Any) -> Callable[[], ModelDesc]:
    return lambda: getattr(importlib.import_module(f"{SCRIPTS}.{name}"), model)(*args)


def _example(name: str, model: str = "Model", *args: Any) -> Callable[[], ModelDesc]:
    return lambda: getattr(load_example(name), model)(*args)


def _imagenet(example: str, network: str, *args: Any, size: int = 64) -> Callable[[], ModelDesc]:
    """Return what makes the model of a network of ImageNet: a class of networks, or, without arguments, a function."""

    def make() -> ModelDesc:
        made = getattr(load_example(example, "imagenet"), network)
        model: ModelDesc = load_example("imagenet_model", "imagenet").ImageNetModel(
            made(*args) if args else made, size=size
        )
        return model

    return make


MODELS: dict[str, Callable[[], ModelDesc]] = {
    "digits": _example("digits", "DigitModel"),
    "imagenet/resnet": _imagenet("resnet_model", "ResNet", 18),
    "imagenet/alexnet": _imagenet("alexnet", "alexnet", size=227),
    "imagenet/vgg": _imagenet("vgg", "VGG", "BN", 10, "channels_last"),
    "imagenet/inception_bn": _imagenet("inception_bn", "inception_bn", size=224),
    "imagenet/shufflenet": _imagenet("shufflenet", "ShuffleNet2", 0.5, 10),
    "cluster/train": lambda: load_example("train", "cluster").SpiralModel(),
    "own_builder": _example("own_builder", "Digits"),
    "siamese": _example("siamese", "SiameseModel"),
    "siamese, frozen": _example("siamese", "FineTuneModel"),
    "cifar_resnet": _example("cifar_resnet", "Model", 1),
    "cifar_augmented": _script("cifar_augmented", "Model", 10),
    "dorefa": _example("dorefa", "Model", 1, 2),
    "ptb_lstm": _example("ptb_lstm", "Model", 50),
    **{name: _example(name) for name in ("char_rnn", "dqn", "keras_in_tower", "mnist")},
    **{name: _script(name) for name in ("edges", "house_numbers", "restoration", "segmentation", "steering")},
}

NOT_COPIED = {
    "keras_in_tower": "has no counterpart in the first tower",
    "steering": "uses what differs from tower to tower: name",
    "digits_estimator": "uses what differs from tower to tower: merge_call",
    "strategy_digits": "uses what differs from tower to tower: merge_call",
}
"""The models and programs that cannot be copied where towers have variables of their own, and why."""

COPIED_IF_SHARED = frozenset({"steering"})
"""Those of them that are copied where towers share variables."""


def build_model(make: Callable[[], ModelDesc], builder: GraphBuilder) -> tf.Graph:
    """Build a model and its train op; return the graph."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        model = make()
        tf.train.get_or_create_global_step()
        signature = model.get_input_signature()
        whole = [tf.placeholder(spec.dtype, spec.shape, f"whole_{spec.name}") for spec in signature]
        optimizers: list[tf.train.Optimizer] = []

        def optimizer_fn() -> tf.train.Optimizer:
            if not optimizers:
                optimizers.append(model.get_optimizer())
            return optimizers[0]

        tower_func = TowerFunc(model.build_graph, signature)
        grad_fn = make_grad_fn(lambda: [*map(tf.identity, whole)], tower_func, optimizer_fn, GradientOptions())
        builder.build(grad_fn, optimizer_fn)
    return graph


def reason_or_difference(build: Callable[[str], tf.Graph]) -> tuple[str, list[str]]:
    """Return why towers are not copied, empty if they are, and the names of nodes by which the graphs differ.

    Args:
        build: makes the graph by ``"copy"`` or ``"build"``.
    """
    try:
        copied = described(build("copy"), copies_are_set=True)
    except GraphBuildError as error:
        return str(error), []
    built = described(build("build"), copies_are_set=True)
    nodes = [each["nodes"] for each in (copied, built)]
    differ = sorted(name for name in nodes[0].keys() | nodes[1].keys() if nodes[0].get(name) != nodes[1].get(name))
    return "", differ + [key for key in copied if copied[key] != built[key]]
