"""Hooks that evaluate while a model is trained, and that end training at a step."""

import tensorflow.compat.v1 as tf

from tpack.tf1.estimator.baseline import BaselineRegressor
from tpack.tf1.estimator.hooks import InMemoryEvaluatorHook, make_stop_at_checkpoint_step_hook, read_eval_metrics
from tpack.tf1.estimator.tpu_estimator import RunConfig


def test_the_model_is_evaluated_between_checkpoints(tmp_path):
    config = RunConfig(save_checkpoints_steps=1000)
    estimator = BaselineRegressor(str(tmp_path), optimizer="SGD", config=config)

    def input_fn():
        return tf.data.Dataset.from_tensors(({"x": [1.0]}, [2.0])).repeat(5)

    hooks = [InMemoryEvaluatorHook(estimator, input_fn, steps=1, name="now", every_n_iter=2)]
    estimator.train(input_fn, hooks=[*hooks, make_stop_at_checkpoint_step_hook(estimator, 4)])
    results = read_eval_metrics(estimator.eval_dir("now"))
    assert list(results) == [1, 3, 4]
    # The bias goes to 2 by 0.3 times twice its distance.
    assert [round(one["loss"], 5) for one in results.values()] == [round(4 * 0.4 ** (2 * k), 5) for k in results]
