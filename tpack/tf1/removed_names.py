"""Names of TensorFlow 1 that exist nowhere any more, and what to use in their place: one table.

A package of `tpack.tf1` raises what `missing_name` makes when it is asked for a name that it does not have. The message
is that of the table if the name stands there, alone or as a part of a namespace that is gone as a whole, and else names
those that are near.
"""

import importlib
import sys
from collections.abc import Iterable

from tpack.errors import MissingNameError

_ROOT = "tpack.tf1"
_TREES = (
    "use HistGradientBoosting of scikit-learn, ydf or xgboost; 'Trees, forests and k-means' in docs/tf1.md shows how"
)
_FORESTS = "use RandomForest of scikit-learn, or ydf; 'Trees, forests and k-means' in docs/tf1.md shows how"
_K_MEANS = "use MiniBatchKMeans of scikit-learn; 'Trees, forests and k-means' in docs/tf1.md shows how"

# The name as scripts write it after ``tf.``, and what to use in its place: a sentence without a capital and full stop.
MISSING: dict[str, str] = {
    "config.experimental_list_devices": "use tf.config.list_logical_devices",
    "contrib.autograph": "use tf.autograph",
    "contrib.batching": "use tf.nondifferentiable_batch_function",
    "contrib.bayesflow": "use the package tensorflow_probability",
    "contrib.boosted_trees": _TREES,
    "contrib.checkpoint": "use tf.train.Checkpoint and tf.train.CheckpointManager",
    "contrib.cloud": "use the package tensorflow_io",
    "contrib.cluster_resolver.UnionClusterResolver": "use tf.distribute.cluster_resolver.UnionResolver",
    "contrib.compiler": "use tf.xla.experimental",
    "contrib.constrained_optimization": "use the package tensorflow_constrained_optimization",
    "contrib.copy_graph": "use tf.graph_util.extract_sub_graph and tf.import_graph_def",
    "contrib.cudnn_rnn": "use tf.contrib.rnn.LSTMBlockFusedCell, or tf.nn.dynamic_rnn with a cell of tf.nn.rnn_cell",
    "contrib.data.CheckpointInputPipelineHook": (
        "use tf.data.experimental.make_saveable_from_iterator, or a trainer with AutoResumeTrainConfig"
    ),
    "contrib.data.LMDBDataset": "use tpack.LMDBData, and tf.data.Dataset.from_generator around it",
    "contrib.deprecated": "use tf.summary",
    "contrib.distribute.TPUStrategy": (
        "there are no TPUs here; tf.contrib.distribute.MirroredStrategy trains on GPUs and CPUs"
    ),
    "contrib.distribute.in_cross_replica_context": (
        "ask whether tf.contrib.distribute.get_cross_tower_context() is not None"
    ),
    "contrib.distribute.initialize_tpu_system": "there are no TPUs here",
    "contrib.distribute.run_standard_tensorflow_server": "use tf.train.Server",
    "contrib.distributions": "use the package tensorflow_probability; tf.distributions has some of them",
    "contrib.eager": "build a graph, which this is for; TensorFlow itself executes eagerly by tf.compat.v2",
    "contrib.estimator.DNNClassifierWithLayerAnnotations": "use tf.estimator.DNNClassifier",
    "contrib.estimator.DNNRegressorWithLayerAnnotations": "use tf.estimator.DNNRegressor",
    "contrib.estimator.RNNClassifier": "write a model_fn with tf.nn.dynamic_rnn and a head such as multi_class_head",
    "contrib.estimator.RNNEstimator": "write a model_fn with tf.nn.dynamic_rnn and a head such as multi_class_head",
    "contrib.estimator.SavedModelEstimator": "load the model by tf.saved_model.load, or tpack.predict",
    "contrib.estimator.boosted_trees_classifier_train_in_memory": _TREES,
    "contrib.estimator.boosted_trees_regressor_train_in_memory": _TREES,
    "contrib.estimator.build_raw_supervised_input_receiver_fn": (
        "models are exported for prediction alone: use tf.estimator.export.build_raw_serving_input_receiver_fn"
    ),
    "contrib.estimator.build_supervised_input_receiver_fn_from_input_fn": (
        "models are exported for prediction alone: use tf.estimator.export.build_raw_serving_input_receiver_fn"
    ),
    "contrib.estimator.export_all_saved_models": "use Estimator.export_saved_model, which exports for prediction",
    "contrib.estimator.export_saved_model_for_mode": "use Estimator.export_saved_model, which exports for prediction",
    "contrib.factorization": "use the package scikit-learn",
    "contrib.factorization.KMeans": _K_MEANS,
    "contrib.factorization.KMeansClustering": _K_MEANS,
    "contrib.feature_column.sequence_input_layer": (
        "use tf.feature_column.input_layer with embeddings of ragged or padded sequences, or tf.nn.embedding_lookup"
    ),
    "contrib.ffmpeg": "use tf.audio, or the package tensorflow_io",
    "contrib.framework.BoundedTensorSpec": "use tf.compat.v2.TensorSpec",
    "contrib.framework.RecordInput": "use tf.data.TFRecordDataset",
    "contrib.framework.convolutional_delta_orthogonal": "use tf.orthogonal_initializer",
    "contrib.framework.convolutional_orthogonal_1d": "use tf.orthogonal_initializer",
    "contrib.framework.convolutional_orthogonal_2d": "use tf.orthogonal_initializer",
    "contrib.framework.convolutional_orthogonal_3d": "use tf.orthogonal_initializer",
    "contrib.framework.deprecated_arg_values": "use warnings.warn",
    "contrib.framework.fuse_op": "use tf.graph_util",
    "contrib.framework.load_and_remap_matrix_initializer": "use tf.train.load_variable, and assign what it gives",
    "contrib.framework.load_embedding_initializer": "use tf.train.load_variable, and assign what it gives",
    "contrib.framework.load_linear_multiclass_bias_initializer": "use tf.train.load_variable, and assign what it gives",
    "contrib.framework.load_variable_slot_initializer": "use tf.train.load_variable, and assign what it gives",
    "contrib.framework.prepend_name_scope": "use string operations on names",
    "contrib.framework.strip_name_scope": "use string operations on names",
    "contrib.framework.zero_initializer": "use tf.zeros_initializer",
    "contrib.grid_rnn": "use tf.nn.rnn_cell",
    "contrib.image.bipartite_match": "use scipy.optimize.linear_sum_assignment by tf.numpy_function",
    "contrib.image.connected_components": "use scipy.ndimage.label by tf.numpy_function",
    "contrib.image.interpolate_spline": "use scipy.interpolate.RBFInterpolator by tf.numpy_function",
    "contrib.image.single_image_random_dot_stereograms": "make it with numpy",
    "contrib.image.sparse_image_warp": (
        "use tf.contrib.image.dense_image_warp with a flow from scipy.interpolate.RBFInterpolator"
    ),
    "contrib.input_pipeline": "use tf.data",
    "contrib.integrate": "use scipy.integrate, or the package tensorflow_probability",
    "contrib.keras": "use tf.keras, or the package tf_keras",
    "contrib.kernel_methods": "use sklearn.kernel_approximation",
    "contrib.labeled_tensor": "use tensors without labels",
    "contrib.layers.DataFrameColumn": "use tf.feature_column",
    "contrib.layers.GDN": "use a compression package such as tensorflow_compression",
    "contrib.layers.InputLayer": "use tf.feature_column",
    "contrib.layers.ProblemType": "use the heads of tf.contrib.estimator",
    "contrib.layers.RevBlock": "use tf.recompute_grad, or smaller batches on more towers",
    "contrib.layers.SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY": "use tf.feature_column.crossed_column",
    "contrib.layers.binary_svm_target": "use the heads of tf.contrib.estimator",
    "contrib.layers.bucketize": "use tf.feature_column.bucketized_column",
    "contrib.layers.check_feature_columns": "use tf.feature_column",
    "contrib.layers.embedding_lookup_sparse_with_distributed_aggregation": (
        "use tf.feature_column.embedding_column, or tf.nn.embedding_lookup_sparse"
    ),
    "contrib.layers.experimental": "use tf.feature_column",
    "contrib.layers.feature_column": "use tf.feature_column",
    "contrib.layers.gdn": "use a compression package such as tensorflow_compression",
    "contrib.layers.get_default_binary_metrics_for_eval": "use the heads of tf.contrib.estimator",
    "contrib.layers.infer_real_valued_columns": "use tf.feature_column.numeric_column",
    "contrib.layers.joint_weighted_sum_from_feature_columns": "use tf.feature_column.linear_model",
    "contrib.layers.make_place_holder_tensors_for_base_features": "use tf.feature_column.make_parse_example_spec",
    "contrib.layers.multi_class_target": "use the heads of tf.contrib.estimator",
    "contrib.layers.parse_feature_columns_from_sequence_examples": (
        "use tf.parse_example with tf.feature_column.make_parse_example_spec"
    ),
    "contrib.layers.recompute_grad": "use tf.recompute_grad, or smaller batches on more towers",
    "contrib.layers.regression_target": "use the heads of tf.contrib.estimator",
    "contrib.layers.rev_block": "use tf.recompute_grad, or smaller batches on more towers",
    "contrib.layers.scale_gradient": "use x * scale + tf.stop_gradient(x * (1 - scale))",
    "contrib.layers.scattered_embedding_column": (
        "use tf.feature_column.embedding_column, or tf.nn.embedding_lookup_sparse"
    ),
    "contrib.layers.scattered_embedding_lookup": (
        "use tf.feature_column.embedding_column, or tf.nn.embedding_lookup_sparse"
    ),
    "contrib.layers.scattered_embedding_lookup_sparse": (
        "use tf.feature_column.embedding_column, or tf.nn.embedding_lookup_sparse"
    ),
    "contrib.layers.sequence_input_from_feature_columns": (
        "use tf.nn.embedding_lookup, or tf.feature_column.input_layer for each step"
    ),
    "contrib.layers.sparse_feature_cross": "use tf.sparse.cross_hashed",
    "contrib.layers.transform_features": "use tf.feature_column",
    "contrib.learn": "of it, ModeKeys and preprocessing are there; tf.estimator took the place of the rest",
    "contrib.learn.Experiment": "use tf.estimator.train_and_evaluate",
    "contrib.learn.RunConfig": "use tf.estimator.RunConfig",
    "contrib.learn.datasets": "use tpack.dataflow.dataset, or tf.keras.datasets",
    "contrib.learn.io": "use tf.estimator.inputs, or tf.data",
    "contrib.learn.learn_runner": "use tf.estimator.train_and_evaluate",
    "contrib.linear_optimizer": "use tf.train.FtrlOptimizer",
    "contrib.losses.metric_learning.cluster_loss": "use triplet_semihard_loss or npairs_loss",
    "contrib.losses.metric_learning.npairs_loss_multilabel": "use npairs_loss",
    "contrib.memory_stats": "use tpack.PeakMemoryTracker, or tf.config.experimental.get_memory_info",
    "contrib.metrics.auc_using_histogram": "use tf.metrics.auc",
    "contrib.metrics.auc_with_confidence_intervals": "use tf.metrics.auc",
    "contrib.metrics.precision_recall_at_equal_thresholds": (
        "use tf.metrics.precision_at_thresholds and recall_at_thresholds"
    ),
    "contrib.metrics.streaming_curve_points": "use tf.metrics.precision_at_thresholds and recall_at_thresholds",
    "contrib.metrics.streaming_dynamic_auc": "use tf.metrics.auc",
    "contrib.metrics.streaming_sparse_average_precision_at_top_k": "use tf.metrics.average_precision_at_k",
    "contrib.mixed_precision": "use the loss scaling and precision of tpack.graph_builder",
    "contrib.model_pruning": "mask the weights by a custom getter of tf.variable_scope",
    "contrib.nccl": "use tpack.reduction.NcclReducer, or tf.contrib.all_reduce.build_nccl_all_reduce",
    "contrib.nn": "use tf.nn",
    "contrib.opt.AGNCustomGetter": (
        "use a trainer of replicated towers with sync_every_steps, or tf.contrib.opt.MovingAverageOptimizer"
    ),
    "contrib.opt.AGNOptimizer": (
        "use a trainer of replicated towers with sync_every_steps, or tf.contrib.opt.MovingAverageOptimizer"
    ),
    "contrib.opt.DropStaleGradientOptimizer": "use a synchronous trainer of tpack",
    "contrib.opt.ElasticAverageCustomGetter": (
        "use a trainer of replicated towers with sync_every_steps, or tf.contrib.opt.MovingAverageOptimizer"
    ),
    "contrib.opt.ElasticAverageOptimizer": (
        "use a trainer of replicated towers with sync_every_steps, or tf.contrib.opt.MovingAverageOptimizer"
    ),
    "contrib.opt.ExternalOptimizerInterface": "use scipy.optimize.minimize with a function that runs tf.gradients",
    "contrib.opt.GGTOptimizer": "use tf.train.AdagradOptimizer",
    "contrib.opt.ModelAverageCustomGetter": (
        "use a trainer of replicated towers with sync_every_steps, or tf.contrib.opt.MovingAverageOptimizer"
    ),
    "contrib.opt.ModelAverageOptimizer": (
        "use a trainer of replicated towers with sync_every_steps, or tf.contrib.opt.MovingAverageOptimizer"
    ),
    "contrib.opt.MultitaskOptimizerWrapper": "use one optimizer for each task",
    "contrib.opt.ScipyOptimizerInterface": "use scipy.optimize.minimize with a function that runs tf.gradients",
    "contrib.opt.ShampooOptimizer": "use tf.train.AdagradOptimizer",
    "contrib.optimizer_v2": "use the optimizers of tf.train",
    "contrib.periodic_resample": "use tf.image.resize_images, or tf.depth_to_space",
    "contrib.predictor": "use tpack.OfflinePredictor, Estimator.predict, or tf.saved_model.loader",
    "contrib.proto": "use tf.io.decode_proto and tf.io.encode_proto",
    "contrib.quantization": "use tf.quantization",
    "contrib.quantize": "quantise after training, by tf.lite.TFLiteConverter",
    "contrib.receptive_field": "compute it from the strides and sizes of the layers",
    "contrib.recurrent": "use tf.nn.dynamic_rnn",
    "contrib.reduce_slice_ops": "use tf.math.segment_sum and its kin",
    "contrib.remote_fused_graph": "use tf.lite",
    "contrib.resampler": "use tf.contrib.image.dense_image_warp, or tf.image.crop_and_resize",
    "contrib.rnn.BidirectionalGridLSTMCell": "use tf.nn.rnn_cell.LSTMCell",
    "contrib.rnn.CompiledWrapper": "use tf.xla.experimental.jit_scope",
    "contrib.rnn.GridLSTMCell": "use tf.nn.rnn_cell.LSTMCell",
    "contrib.rnn.TimeFreqLSTMCell": "use tf.nn.rnn_cell.LSTMCell",
    "contrib.rpc": "use grpc by tf.numpy_function",
    "contrib.saved_model": "use the save method of a tf.keras model",
    "contrib.slim.dataset_data_provider.data_provider": "use tf.contrib.slim.data_provider",
    "contrib.slim.dataset_data_provider.parallel_reader": "use tf.data.TFRecordDataset",
    "contrib.slim.deprecated_arg_values": "use warnings.warn",
    **dict.fromkeys(
        (f"contrib.slim.nets.{net}" for net in ("alexnet", "inception", "overfeat")),
        "copy the nets of the models repository of TensorFlow, research/slim/nets, which stand on tf.contrib.slim",
    ),
    "contrib.slim.queues.NestedQueueRunnerError": "use ValueError",
    "contrib.slim.summaries": "of it, the functions of tf.contrib.layers are there; use tf.summary for the others",
    "contrib.slim.tfexample_decoder.data_decoder": "use tf.contrib.slim.data_decoder",
    "contrib.slim.zero_initializer": "use tf.zeros_initializer",
    "contrib.solvers": "use tf.linalg, or tf.linalg.experimental.conjugate_gradient",
    "contrib.sparsemax": "use tf.nn.softmax",
    "contrib.specs": "write the layers out with tf.layers",
    "contrib.staging": "use tpack.StagingInput, or tf.raw_ops.Stage and tf.raw_ops.Unstage",
    "contrib.stat_summarizer": "use tpack.GraphProfiler, or tf.profiler",
    "contrib.summary": "use tf.summary, or tf.compat.v2.summary",
    "contrib.tensor_forest": _FORESTS,
    "contrib.tensorboard": "use tensorboard.plugins.projector of the package tensorboard, which has the same calls",
    "contrib.testing": "use tf.test, and tf.train.summary_iterator",
    "contrib.tfprof": "use tf.profiler, or tpack.GraphProfiler",
    "contrib.timeseries": "use the package tensorflow_probability, or statsmodels",
    "contrib.tpu": "there are no TPUs here; its TPUEstimator(use_tpu=False) and the trainers run on GPUs and CPUs",
    "contrib.training.FeedingQueueRunner": "use tf.data, and carry the state of tf.nn.dynamic_rnn by a variable",
    "contrib.training.GreedyLoadBalancingStrategy": "use tpack.LeastLoadedDeviceSetter",
    "contrib.training.NextQueuedSequenceBatch": "use tf.data, and carry the state of tf.nn.dynamic_rnn by a variable",
    "contrib.training.RandomStrategy": "use tpack.LeastLoadedDeviceSetter",
    "contrib.training.SequenceQueueingStateSaver": (
        "use tf.data, and carry the state of tf.nn.dynamic_rnn by a variable"
    ),
    "contrib.training.batch_sequences_with_states": (
        "use tf.data, and carry the state of tf.nn.dynamic_rnn by a variable"
    ),
    "contrib.training.bucket": "use tf.data.experimental.bucket_by_sequence_length",
    "contrib.training.bucket_by_sequence_length": "use tf.data.experimental.bucket_by_sequence_length",
    "contrib.training.byte_size_load_fn": "use tpack.LeastLoadedDeviceSetter",
    "contrib.training.rejection_sample": "use tf.data.experimental.rejection_resample",
    "contrib.training.resample_at_rate": "use tf.data.experimental.rejection_resample",
    "contrib.training.stratified_sample": "use tf.data.experimental.rejection_resample",
    "contrib.training.weighted_resample": "use tf.data.experimental.rejection_resample",
    "contrib.util.loader": "use tf.load_op_library",
    "contrib.util.ops_used_by_graph_def": "use {node.op for node in graph_def.node}",
    "contrib.util.stripped_op_list_for_graph": (
        "use meta_graph_def.meta_info_def.stripped_op_list of tf.train.export_meta_graph"
    ),
    "data.experimental.CheckpointInputPipelineHook": (
        "use tf.data.experimental.make_saveable_from_iterator, or a trainer with AutoResumeTrainConfig"
    ),
    "data.experimental.MapVectorizationOptions": "leave it out; TensorFlow no longer vectorises maps by itself",
    "data.experimental.StatsAggregator": "use tf.profiler; data pipelines no longer give statistics",
    "data.experimental.StatsOptions": "use tf.profiler; data pipelines no longer give statistics",
    "data.experimental.bytes_produced_stats": "use tf.profiler; data pipelines no longer give statistics",
    "data.experimental.latency_stats": "use tf.profiler; data pipelines no longer give statistics",
    "estimator.BoostedTreesClassifier": _TREES,
    "estimator.BoostedTreesEstimator": _TREES,
    "estimator.BoostedTreesRegressor": _TREES,
    "estimator.experimental.KMeans": _K_MEANS,
    "estimator.experimental.LinearSDCA": "give a LinearClassifier or LinearRegressor the optimizer 'Ftrl'",
    "estimator.experimental.build_raw_supervised_input_receiver_fn": (
        "models are exported for prediction alone: use tf.estimator.export.build_raw_serving_input_receiver_fn"
    ),
    "estimator.inputs.keras_input_fn": "use tf.estimator.inputs.numpy_input_fn",
    "estimator.tpu": "there are no TPUs here; its TPUEstimator(use_tpu=False) trains on GPUs and CPUs",
    "layers.experimental": "leave it out; it only changed how Keras layers are named",
    "lite.experimental.get_potentially_supported_ops": "use tf.lite.TFLiteConverter, which says what it cannot convert",
    "lite.experimental.nn": "use tf.nn.rnn_cell and tf.nn.dynamic_rnn",
    "pywrap_tensorflow": "use tf.train.NewCheckpointReader, or what tf.Session has; it was TensorFlow's own interior",
    "tools": "use tf.graph_util, or the TensorFlow of its time for tf.tools.graph_transforms",
    "tpu.experimental": "there are no TPUs here; the optimizers of tf.train train on GPUs and CPUs",
}


def missing_name(module: str, name: str, known: Iterable[str] = ()) -> Exception:
    """Make the error for a name that a package of `tpack.tf1` does not have.

    ``from tpack.tf1.contrib import tpu`` would hide it behind an error of Python's own, so that gets it as the
    ImportError that it is to become anyway.

    Args:
        module: the ``__name__`` of the package.
        name: what it was asked for.
        known: names that it has, to name those near one that stands in no table.

    Returns:
        The error, to be raised.
    """
    wanted = f"{module}.{name}".removeprefix(f"{_ROOT}.")
    message = f"tf.{wanted} is not there: {reason_for(wanted) or _near(name, known)}"
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_name in ("other", "load", "__getattr__"):
        frame = frame.f_back
    if frame.f_code.co_name == "_handle_fromlist" and reason_for(wanted):
        return ImportError(message, name=module)
    return MissingNameError(message)


def missing_module(module: str) -> ModuleNotFoundError:
    """Return the error for the import of a module below ``tpack.tf1.contrib`` that is not there."""
    wanted = module.removeprefix(f"{_ROOT}.")
    above = next(name for name in _namespaces(module)[1:] if name in sys.modules)
    below = f"import its names from {above}" if above != f"{_ROOT}.contrib" else "neither TensorFlow nor tpack has it"
    advice = reason_for(wanted) or below
    return ModuleNotFoundError(f"tf.{wanted} is not there: {advice}", name=module)


def reason_for(wanted: str) -> str | None:
    """Return what the table says of a name after ``tf.``, or of the longest namespace that it is in.

    ``tf.contrib.slim`` had all of ``tf.contrib.layers`` too.
    """
    names = _namespaces(wanted)
    names += [name.replace("contrib.slim.", "contrib.layers.", 1) for name in names]
    return next((MISSING[name] for name in names if name in MISSING), None)


def _namespaces(name: str) -> list[str]:
    """Return a dotted name and those that it is in, the longest first."""
    parts = name.split(".")
    return [".".join(parts[:size]) for size in range(len(parts), 0, -1)]


def _near(name: str, known: Iterable[str]) -> str:
    # Imported here, since it takes longer to import than all that ``import tpack`` needs.
    near = importlib.import_module("difflib").get_close_matches(name, known)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"neither TensorFlow nor tpack has it{hint}"
