"""The graph of one run: seed, global step, input and a model inside a tower."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.errors import ConfigError
from tpack.estimator.building import ModelParts, build_model
from tpack.estimator.inputs import Inputs
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec
from tpack.tower.context import current_tower_context, get_current_tower_context


def parts(model_fn, **options):
    return ModelParts(model_fn, {"a": 1}, RunConfig(**options), "dir")


@pytest.mark.parametrize("mode", ["train", "eval", "infer"])
def test_model_is_called_in_a_tower(graph, mode):
    seen = {}

    def model(features, labels, mode, params, config):
        seen.update(
            labels=labels, params=params, seed=config.tf_random_seed, is_training=current_tower_context().is_training
        )
        seen["device"] = tf.constant(1).device
        return EstimatorSpec(mode, features, 1.0, tf.no_op())

    options = {"tf_random_seed": 5, "device_fn": lambda op: "/device:CPU:3"}
    model = build_model(parts(model, **options), mode, lambda: Inputs(tf.constant([1.0]), "labels"))
    assert seen == {
        "labels": None if mode == "infer" else "labels",
        "params": {"a": 1},
        "seed": 5,
        "is_training": mode == "train",
        "device": "/device:CPU:3",
    }
    assert model.spec.mode == mode
    assert model.global_step is tf.train.get_global_step()
    assert model.inputs.features.device == ""
    assert get_current_tower_context() is None


def test_seed_repeats_values():
    def draw(seed):
        with tf.Graph().as_default(), cpu_session() as session:
            model = build_model(
                parts(lambda features: EstimatorSpec("infer", tf.random.uniform([4])), tf_random_seed=seed),
                "infer",
                lambda: Inputs(None, None),
            )
            return session.run(model.spec.predictions).tolist()

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_errors_of_the_model_fn_pass(graph):
    with pytest.raises(ConfigError, match="expected an EstimatorSpec"):
        build_model(parts(lambda features: None), "infer", lambda: Inputs(None, None))
