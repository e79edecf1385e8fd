"""``tf.contrib.metrics``: metrics that add up over batches, with predictions before labels."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "statistics": (
            "accuracy aggregate_metric_map aggregate_metrics cohen_kappa count f1_score precision_at_recall "
            "recall_at_precision sparse_recall_at_top_k streaming_accuracy streaming_auc streaming_concat "
            "streaming_covariance streaming_false_negative_rate streaming_false_negative_rate_at_thresholds "
            "streaming_false_negatives streaming_false_negatives_at_thresholds streaming_false_positive_rate "
            "streaming_false_positive_rate_at_thresholds streaming_false_positives "
            "streaming_false_positives_at_thresholds streaming_mean_absolute_error streaming_mean_cosine_distance "
            "streaming_mean_iou streaming_mean_relative_error streaming_mean_squared_error "
            "streaming_pearson_correlation streaming_precision streaming_precision_at_thresholds streaming_recall "
            "streaming_recall_at_k streaming_recall_at_thresholds streaming_root_mean_squared_error "
            "streaming_sensitivity_at_specificity streaming_sparse_average_precision_at_k "
            "streaming_sparse_precision_at_k streaming_sparse_precision_at_top_k streaming_sparse_recall_at_k "
            "streaming_specificity_at_sensitivity streaming_true_negatives streaming_true_negatives_at_thresholds "
            "streaming_true_positives streaming_true_positives_at_thresholds"
        ),
        "tensorflow.compat.v1.math": "confusion_matrix",
        "tensorflow.compat.v1.sets": "set_difference set_intersection set_size set_union",
        "tensorflow.compat.v1.metrics": (
            "streaming_mean=mean streaming_mean_tensor=mean_tensor streaming_percentage_less=percentage_below"
        ),
    },
)
