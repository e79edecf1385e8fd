"""``tf.contrib.framework``: `arg_scope`, variables in collections, values from checkpoints.

What TensorFlow still has elsewhere is the same object here.
"""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "nest": "",
        "checkpoints": (
            "assign_from_checkpoint assign_from_checkpoint_fn assign_from_values assign_from_values_fn "
            "init_from_checkpoint list_variables load_checkpoint load_variable"
        ),
        "scoping": "add_arg_scope arg_scope arg_scope_func_key arg_scoped_arguments current_arg_scope has_arg_scope",
        "tensors": (
            "assert_scalar_int get_graph_from_inputs get_name_scope get_placeholders py_func reduce_sum_n "
            "remove_squeezable_dimensions smart_cond smart_constant_value with_same_shape with_shape"
        ),
        "variables": (
            "VariableDeviceChooser add_model_variable assert_global_step assert_or_get_global_step create_global_step "
            "filter_variables get_global_step get_local_variables get_model_variables get_or_create_global_step "
            "get_trainable_variables get_unique_variable get_variable_full_name get_variables get_variables_by_name "
            "get_variables_by_suffix get_variables_to_restore global_variable local_variable model_variable variable"
        ),
        "tensorflow.compat.v1": "TensorSpec argsort convert_to_tensor_or_sparse_tensor is_tensor smart_case=case sort",
        "tensorflow.compat.v1.debugging": "assert_same_float_dtype assert_scalar",
    },
)
