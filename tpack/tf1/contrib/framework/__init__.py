"""``tf.contrib.framework``: `arg_scope`, variables in collections, values from checkpoints.

What TensorFlow still has elsewhere is the same object here.
"""

import tensorflow.compat.v1 as _tf

from tpack.tf1.contrib.framework import nest
from tpack.tf1.contrib.framework.checkpoints import (
    assign_from_checkpoint,
    assign_from_checkpoint_fn,
    assign_from_values,
    assign_from_values_fn,
    init_from_checkpoint,
    list_variables,
    load_checkpoint,
    load_variable,
)
from tpack.tf1.contrib.framework.scoping import (
    add_arg_scope,
    arg_scope,
    arg_scope_func_key,
    arg_scoped_arguments,
    current_arg_scope,
    has_arg_scope,
)
from tpack.tf1.contrib.framework.tensors import (
    assert_scalar_int,
    get_graph_from_inputs,
    get_name_scope,
    get_placeholders,
    py_func,
    reduce_sum_n,
    remove_squeezable_dimensions,
    smart_cond,
    smart_constant_value,
    with_same_shape,
    with_shape,
)
from tpack.tf1.contrib.framework.variables import (
    VariableDeviceChooser,
    add_model_variable,
    assert_global_step,
    assert_or_get_global_step,
    create_global_step,
    filter_variables,
    get_global_step,
    get_local_variables,
    get_model_variables,
    get_or_create_global_step,
    get_trainable_variables,
    get_unique_variable,
    get_variable_full_name,
    get_variables,
    get_variables_by_name,
    get_variables_by_suffix,
    get_variables_to_restore,
    global_variable,
    local_variable,
    model_variable,
    variable,
)
from tpack.tf1.name_table import look_up

TensorSpec = _tf.TensorSpec
argsort = _tf.argsort
assert_same_float_dtype = _tf.debugging.assert_same_float_dtype
assert_scalar = _tf.debugging.assert_scalar
convert_to_tensor_or_sparse_tensor = _tf.convert_to_tensor_or_sparse_tensor
is_tensor = _tf.is_tensor
smart_case = _tf.case
sort = _tf.sort

__all__ = [
    "TensorSpec",
    "VariableDeviceChooser",
    "add_arg_scope",
    "add_model_variable",
    "arg_scope",
    "arg_scope_func_key",
    "arg_scoped_arguments",
    "argsort",
    "assert_global_step",
    "assert_or_get_global_step",
    "assert_same_float_dtype",
    "assert_scalar",
    "assert_scalar_int",
    "assign_from_checkpoint",
    "assign_from_checkpoint_fn",
    "assign_from_values",
    "assign_from_values_fn",
    "convert_to_tensor_or_sparse_tensor",
    "create_global_step",
    "current_arg_scope",
    "filter_variables",
    "get_global_step",
    "get_graph_from_inputs",
    "get_local_variables",
    "get_model_variables",
    "get_name_scope",
    "get_or_create_global_step",
    "get_placeholders",
    "get_trainable_variables",
    "get_unique_variable",
    "get_variable_full_name",
    "get_variables",
    "get_variables_by_name",
    "get_variables_by_suffix",
    "get_variables_to_restore",
    "global_variable",
    "has_arg_scope",
    "init_from_checkpoint",
    "is_tensor",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "local_variable",
    "model_variable",
    "nest",
    "py_func",
    "reduce_sum_n",
    "remove_squeezable_dimensions",
    "smart_case",
    "smart_cond",
    "smart_constant_value",
    "sort",
    "variable",
    "with_same_shape",
    "with_shape",
]

__getattr__, __dir__, _ = look_up(__name__, {}, own=__all__)
