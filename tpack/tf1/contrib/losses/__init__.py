"""``tf.contrib.losses``: losses that take predictions before labels, and those of metric learning."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "metric_learning": "",
        "weighted": (
            "absolute_difference add_loss compute_weighted_loss cosine_distance hinge_loss log_loss "
            "mean_pairwise_squared_error mean_squared_error sigmoid_cross_entropy softmax_cross_entropy "
            "sparse_softmax_cross_entropy"
        ),
        "tensorflow.compat.v1.losses": "get_losses get_regularization_losses get_total_loss",
    },
)
