"""``tf.contrib.graph_editor``: walks through graphs, views of parts of them, copies and other connections."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "edit": (
            "bypass connect detach detach_control_inputs detach_control_outputs detach_inputs detach_outputs edit="
        ),
        "reroute": (
            "add_control_inputs remove_control_inputs reroute= reroute_inputs reroute_ios reroute_outputs reroute_ts "
            "swap_inputs swap_ios swap_outputs swap_ts"
        ),
        "select": (
            "can_be_regex check_cios compute_boundary_ts filter_ops filter_ops_from_regex filter_ts "
            "filter_ts_from_regex get_backward_walk_ops get_forward_walk_ops get_name_scope_ops get_ops_ios "
            "get_walks_intersection_ops get_walks_union_ops get_within_boundary_ops make_regex select= select_ops "
            "select_ops_and_ts select_ts"
        ),
        "subgraph": (
            "SubGraphView make_view make_view_from_scope sgv=make_view sgv_scope=make_view_from_scope subgraph="
        ),
        "transform": (
            "Transformer TransformerInfo assign_renamed_collections_handler copy copy_op_handler "
            "copy_with_input_replacements graph_replace keep_t_if_possible_handler replace_t_with_placeholder_handler "
            "transform= transform_op_if_inside_handler"
        ),
        "util": (
            "ControlOutputs get_consuming_ops get_generating_ops get_tensors make_list_of_op make_list_of_t "
            "make_placeholder_from_dtype_and_shape make_placeholder_from_tensor "
            "ph=make_placeholder_from_dtype_and_shape placeholder_name util="
        ),
    },
)
