"""``tf.contrib.estimator``: heads by functions, and what is elsewhere."""

import inspect

import tpack.tf1.contrib.estimator as contrib
from tpack.estimator import TowerOptimizer, replicate_model_fn
from tpack.tf1.estimator.heads.classification import BinaryClassHead, MultiClassHead, MultiLabelHead
from tpack.tf1.estimator.heads.multi import MultiHead
from tpack.tf1.estimator.heads.regression import LogisticRegressionHead, PoissonRegressionHead, RegressionHead


def test_heads_have_the_arguments_and_the_mean_of_tensorflow_1():
    heads = {
        contrib.binary_classification_head(thresholds=[0.5], name="a"): (BinaryClassHead, 1),
        contrib.multi_class_head(3, label_vocabulary=["a", "b", "c"]): (MultiClassHead, 3),
        contrib.multi_label_head(4, classes_for_class_based_metrics=[1]): (MultiLabelHead, 4),
        contrib.regression_head("w", 2): (RegressionHead, 2),
        contrib.poisson_regression_head("w", 3): (PoissonRegressionHead, 3),
        contrib.logistic_regression_head("w"): (LogisticRegressionHead, 1),
        contrib.multi_head([contrib.regression_head(name="r")], [2.0]): (MultiHead, 1),
    }
    for head, (kind, width) in heads.items():
        assert type(head) is kind
        assert (head.logits_dimension, head.loss_reduction) == (width, "weighted_sum_over_batch_size")
    assert list(inspect.signature(contrib.regression_head).parameters)[:2] == ["weight_column", "label_dimension"]


def test_all_names_are_there():
    assert all(callable(getattr(contrib, name)) for name in contrib.__all__)
    assert contrib.TowerOptimizer is TowerOptimizer
    assert contrib.replicate_model_fn is replicate_model_fn
