"""``tf.contrib.data``: what became ``tf.data.experimental``, and the functions that came to nothing there."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "transformations": (
            "assert_element_shape batch_and_drop_remainder padded_batch_and_drop_remainder read_batch_features "
            "reduce_dataset sliding_window_batch sloppy_interleave"
        ),
        "tensorflow.compat.v1.data.experimental": (
            "AUTOTUNE Counter CsvDataset Optional RandomDataset Reducer SqlDataset TFRecordWriter "
            "bucket_by_sequence_length choose_from_datasets copy_to_device dense_to_sparse_batch enumerate_dataset "
            "get_next_as_optional get_single_element group_by_reducer group_by_window ignore_errors "
            "make_batched_features_dataset make_csv_dataset make_saveable_from_iterator map_and_batch "
            "parallel_interleave parse_example_dataset prefetch_to_device rejection_resample sample_from_datasets "
            "scan shuffle_and_repeat unbatch unique"
        ),
    },
)
