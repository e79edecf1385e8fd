"""``tf.contrib.metrics``: metrics that add up over batches, with predictions before labels."""

from tpack.tf1.contrib.metrics import statistics, streaming, thresholds
from tpack.tf1.name_table import look_up

_STREAMING = (
    "accuracy auc false_negatives false_positives mean_absolute_error mean_cosine_distance mean_iou "
    "mean_relative_error mean_squared_error percentage_less precision precision_at_thresholds recall recall_at_k "
    "recall_at_thresholds root_mean_squared_error sensitivity_at_specificity sparse_average_precision_at_k "
    "sparse_precision_at_k sparse_precision_at_top_k sparse_recall_at_k specificity_at_sensitivity "
    "true_negatives true_positives"
)
_AT_THRESHOLDS = "false_negative_rate false_negatives false_positive_rate false_positives true_negatives true_positives"
_STATISTICS = (
    "accuracy aggregate_metric_map aggregate_metrics cohen_kappa count streaming_concat streaming_covariance "
    "streaming_false_negative_rate streaming_false_positive_rate streaming_pearson_correlation"
)
_PLACES = {
    **{f"streaming_{name}": f"{streaming.__name__}:streaming_{name}" for name in _STREAMING.split()},
    "sparse_recall_at_top_k": f"{streaming.__name__}:sparse_recall_at_top_k",
    **{
        f"streaming_{name}_at_thresholds": f"{thresholds.__name__}:streaming_{name}_at_thresholds"
        for name in _AT_THRESHOLDS.split()
    },
    **{name: f"{thresholds.__name__}:{name}" for name in ("f1_score", "precision_at_recall", "recall_at_precision")},
    **{name: f"{statistics.__name__}:{name}" for name in _STATISTICS.split()},
    "confusion_matrix": "tf.math.confusion_matrix",
    **{name: f"tf.sets.{name}" for name in ("set_difference", "set_intersection", "set_size", "set_union")},
    "streaming_mean": "tf.metrics.mean",
    "streaming_mean_tensor": "tf.metrics.mean_tensor",
}

__getattr__, __dir__, __all__ = look_up(__name__, _PLACES)
