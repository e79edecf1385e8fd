"""``tf.contrib.layers``: layers as functions, with their variables under the names that 1.15 gave them."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "summaries": (
            "summaries= summarize_activation summarize_activations summarize_biases summarize_collection "
            "summarize_tensor summarize_tensors summarize_variables summarize_weights"
        ),
        "utils": "",
        "batch_normalization": "batch_norm",
        "convolutions": (
            "conv1d conv2d conv2d_in_plane conv2d_transpose conv3d conv3d_transpose convolution convolution1d "
            "convolution2d convolution2d_in_plane convolution2d_transpose convolution3d convolution3d_transpose "
            "separable_conv2d separable_convolution2d"
        ),
        "dense": (
            "elu fully_connected legacy_fully_connected legacy_linear legacy_relu linear relu relu6 bow_encoder "
            "dense_to_sparse embed_sequence embedding_lookup_unique safe_embedding_lookup_sparse"
        ),
        "feature_columns": (
            "bucketized_column create_feature_spec_for_parsing crossed_column embedding_column "
            "input_from_feature_columns one_hot_column parse_feature_columns_from_examples real_valued_column "
            "shared_embedding_columns sparse_column_with_hash_bucket sparse_column_with_integerized_feature "
            "sparse_column_with_keys sparse_column_with_vocabulary_file weighted_sparse_column "
            "weighted_sum_from_feature_columns"
        ),
        "layer_weights": (
            "initializers= regularizers= variance_scaling_initializer xavier_initializer xavier_initializer_conv2d "
            "apply_regularization l1_l2_regularizer l1_regularizer l2_regularizer sum_regularizer"
        ),
        "norms": "group_norm instance_norm layer_norm",
        "optimizers": "OPTIMIZER_CLS_NAMES OPTIMIZER_SUMMARIES adaptive_clipping_fn optimize_loss",
        "pooling": "avg_pool2d avg_pool3d max_pool2d max_pool3d pool",
        "layer_parts": (
            "bias_add dropout flatten images_to_sequence maxout one_hot_encoding repeat "
            "sequence_to_images softmax spatial_softmax stack unit_norm"
        ),
    },
)
