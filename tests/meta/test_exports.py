"""What each package offers is written here by hand: a name that comes or goes is a decision, not an accident."""

import importlib
import subprocess
import sys

import pytest

from tests.helpers.source import ROOT, modules_under

EXPORTS = {
    "tpack": """
        AsyncMultiGPUBuilder AsyncMultiGPUTrainer AutoResumeTrainConfig AvgPooling BNReLU BatchData BatchNorm
        BatchQueueInput BatchRenorm BinaryClassificationStats BuildResult BuilderTrainer Callback CallbackFactory
        CallbackToHook Callbacks ChainInit CheckNumerics ClassificationError ConcatWith Conv2D Conv2DTranspose
        DEFAULT_CALLBACKS DEFAULT_MONITORS DataFlow DataFlowTerminated DataFromGenerator DataFromIterable
        DataFromList DataParallelBuilder DataParallelInferenceRunner DataParallelOfflinePredictor
        DatasetPredictorBase Deconv2D DictRestore Dropout DummyConstantInput DumpParamAsImage DumpTensor
        DumpTensorAsImage DumpTensors EMA EarlyStopping EnableCallbackIf EstimatedTimeLeft FakeData FeedInput
        FeedfreeInput FeedfreePredictor FixedSizeData FixedUnPooling FullyConnected GPUMemoryTracker
        GPUUtilizationTracker GlobalAvgPooling GraphBuilder GraphProfiler GraphVarParam GroupNorm HookToCallback
        HostMemoryTracker HumanHyperParamSetter HyperParam HyperParamSetter HyperParamSetterWithFunc InferenceRunner
        InferenceRunnerBase Inferencer InputSource InstanceNorm JSONWriter JustCurrentSession LayerNorm
        LeastLoadedDeviceSetter LinearWrap MapData MapDataComponent MaxPooling MaxSaver Maxout MergeAllSummaries
        MinSaver ModelDesc ModelDescBase ModelSaver MonitorBase Monitors MovingAverageSummary
        MultiProcessDatasetPredictor MultiThreadAsyncPredictor MultiTowerOfflinePredictor NoOpTrainer ObjAttrParam
        OfflinePredictor OnlinePredictor PReLU PeakMemoryTracker PeriodicCallback PeriodicTrigger PlaceholderInput
        PredictConfig PredictorBase ProcessTensors ProgressBar ProxyCallback ProxyDataFlow QueueInput RNGDataFlow
        RepeatedData RunOp RunUpdateOps SaverRestore SaverRestoreRelaxed ScalarPrinter ScalarStats
        ScheduledHyperParamSetter SendMonitorData SendStat SessionInit SessionRunTimeout SimpleBuilder
        SimpleDatasetPredictor SimpleMovingAverage SimpleTrainer SingleCostTrainer SmartInit StagingInput
        StartProcOrThread StatMonitorParamSetter StopTraining SyncMultiGPUParameterServerBuilder
        SyncMultiGPUReplicatedBuilder SyncMultiGPUTrainer SyncMultiGPUTrainerHierarchical
        SyncMultiGPUTrainerParameterServer SyncMultiGPUTrainerReplicated TFDatasetInput TFEventWriter TensorInput
        TensorPrinter TestDataSpeed ThroughputTracker TowerContext TowerTrainer TrainConfig TrainLoop Trainer
        VariableHolder Watchdog add_keras_losses allreduce_grads argscope change_env collect_env_info
        disable_layer_logging enable_argscope_for_function enable_argscope_for_module execute_only_once fix_rng_seed
        get_arg_scope get_current_tower_context get_default_sess_config get_global_step_value get_global_step_var
        get_model_loader get_rng get_tf_version_tuple get_tqdm gradproc humanize_time_delta l1_regularizer
        l2_regularizer launch_train_with_config layer_register logger optimizer regularize_cost
        regularize_cost_from_collection remap_input_source rename_tflayer_get_variable sesscreate sessinit summary
        varreplace
    """,
    "tpack.callbacks": """
        BinaryClassificationStats Callback CallbackFactory CallbackToHook Callbacks CheckNumerics
        ClassificationError DataParallelInferenceRunner DumpParamAsImage DumpTensor DumpTensorAsImage DumpTensors
        EMA EarlyStopping EnableCallbackIf EstimatedTimeLeft GPUMemoryTracker GPUUtilizationTracker GraphProfiler
        GraphVarParam HookToCallback HostMemoryTracker HumanHyperParamSetter HyperParam HyperParamSetter
        HyperParamSetterWithFunc InferenceRunner InferenceRunnerBase Inferencer JSONWriter MaxSaver
        MergeAllSummaries MinSaver ModelSaver MonitorBase Monitors MovingAverageSummary ObjAttrParam
        PeakMemoryTracker PeriodicCallback PeriodicTrigger ProcessTensors ProgressBar ProxyCallback RunOp
        RunUpdateOps ScalarPrinter ScalarStats ScheduledHyperParamSetter SendMonitorData SendStat SessionRunTimeout
        SimpleMovingAverage StartProcOrThread StatMonitorParamSetter TFEventWriter TensorPrinter ThroughputTracker
        Watchdog
    """,
    "tpack.callbacks.inference": """
        BinaryClassificationStats ClassificationError DataParallelInferenceRunner InferenceRunner
        InferenceRunnerBase Inferencer ScalarStats
    """,
    "tpack.callbacks.monitors": """
        JSONWriter MonitorBase Monitors ScalarPrinter SendMonitorData TFEventWriter
    """,
    "tpack.cli": """
        main
    """,
    "tpack.dataflow": """
        BatchData DataFlow DataFlowTerminated DataFromGenerator DataFromIterable DataFromList FakeData FixedSizeData
        MapData MapDataComponent ProxyDataFlow RNGDataFlow RepeatedData TestDataSpeed
    """,
    "tpack.graph_builder": """
        AsyncMultiGPUBuilder BuildResult DataParallelBuilder GradientOptions GradientPacker GraphBuilder
        LeastLoadedDeviceSetter LossScaling ModelDesc ModelDescBase OverrideCachingDevice PrecisionPolicy
        SimpleBuilder SyncMultiGPUParameterServerBuilder SyncMultiGPUReplicatedBuilder aggregate_grads_colocate
        allreduce_grads allreduce_grads_hierarchical allreduce_grads_naive build_predict_tower make_grad_fn
        merge_grad_list override_to_local_variable split_grad_list
    """,
    "tpack.input_source": """
        BatchQueueInput DummyConstantInput FeedInput FeedfreeInput InputSource PlaceholderInput QueueInput
        StagingInput TFDatasetInput TensorInput remap_input_source
    """,
    "tpack.models": """
        AvgPooling BNReLU BatchNorm BatchRenorm ConcatWith Conv2D Conv2DTranspose Deconv2D Dropout FixedUnPooling
        FullyConnected GlobalAvgPooling GroupNorm InstanceNorm LayerNorm LinearWrap MaxPooling Maxout PReLU
        VariableHolder add_keras_losses disable_layer_logging l1_regularizer l2_regularizer layer_register
        regularize_cost regularize_cost_from_collection rename_tflayer_get_variable
    """,
    "tpack.predict": """
        DataParallelOfflinePredictor DatasetPredictorBase FeedfreePredictor MultiProcessDatasetPredictor
        MultiThreadAsyncPredictor MultiTowerOfflinePredictor OfflinePredictor OnlinePredictor PredictConfig
        PredictorBase SimpleDatasetPredictor
    """,
    "tpack.reduction": """
        AggregateSmallTensorPacker AggregateSmallTensorPackingReducer AllReduceSpec AutoReducer BucketPacker
        BucketReducer ChoiceCache CollectiveReducer ColocatedReduction CompositeReducer ConcatAndSplitPacker
        ConcatAndSplitPackingReducer CpuShuffleReducer DensifyReducer GradientPacker GradientPackingReducer
        HalvingDoublingReducer HierarchicalReducer IdentityReducer MeasuredChoice Measurement MeasuringOptions
        NcclReducer OneDeviceReducer REDUCTION_MODES ReduceOp Reducer ReducerChoice RingReducer RoundRobinReducer
        ShardingReducer ShuffleReducer SplitBySizeReducer TrafficReport WireDtypeReducer aggregate_grads_colocate
        allreduce_grads allreduce_grads_hierarchical allreduce_grads_naive choose_by_measurement choose_the_best
        count_traffic make_reducer mean_over_towers merge_grad_list parse_all_reduce_spec reducer_for_mode
        reducer_for_spec split_grad_list stack_over_towers sum_over_towers
    """,
    "tpack.tfutils": """
        ChainInit DictRestore JustCurrentSession NewSessionCreator ReuseSessionCreator SaverRestore
        SaverRestoreRelaxed SessionCreatorAdapter SessionInit SmartInit TowerContext argscope collect_env_info
        enable_argscope_for_function enable_argscope_for_module get_arg_scope get_current_tower_context
        get_default_sess_config get_global_step_value get_global_step_var get_model_loader get_tf_version_tuple
        gradproc optimizer sesscreate sessinit summary tower varreplace
    """,
    "tpack.tower": """
        CollectionSnapshot LeastLoadedDeviceSetter OverrideCachingDevice PredictTowerContext TowerContext TowerFunc
        TowerHandle TowerHandles TrainTowerContext VariableRecorder backup_collection call_in_towers
        canonical_device check_session_devices current_tower_context custom_getter_scope freeze_collection
        full_precision get_current_tower_context list_gpus op_and_tensor_name override_to_local_variable
        pair_variables required_cpu_devices resolve_device resolve_devices restore_collection tower_name
    """,
    "tpack.train": """
        AsyncMultiGPUTrainer AutoResumeTrainConfig BuilderTrainer DEFAULT_CALLBACKS DEFAULT_MONITORS ModelDesc
        ModelDescBase NoOpTrainer SimpleTrainer SingleCostTrainer StopTraining SyncMultiGPUTrainer
        SyncMultiGPUTrainerHierarchical SyncMultiGPUTrainerParameterServer SyncMultiGPUTrainerReplicated
        TowerTrainer TrainConfig TrainLoop Trainer launch_train_with_config
    """,
    "tpack.utils": """
        change_env execute_only_once fix_rng_seed get_rng get_tqdm humanize_time_delta logger
    """,
}

# What is used every day in these packages is offered by tpack itself, all of it.
EVERYDAY = [
    "tpack.callbacks",
    "tpack.dataflow",
    "tpack.input_source",
    "tpack.models",
    "tpack.predict",
    "tpack.train",
    "tpack.utils",
]


def test_every_package_is_listed():
    assert set(EXPORTS) == {module.name for module in modules_under("tpack") if module.is_package}


@pytest.mark.parametrize("package", EXPORTS)
def test_all_is_the_list(package):
    assert sorted(importlib.import_module(package).__all__) == sorted(EXPORTS[package].split())


@pytest.mark.parametrize("package", EXPORTS)
def test_every_name_resolves(package):
    module = importlib.import_module(package)
    for name in EXPORTS[package].split():
        assert getattr(module, name) is not None
        assert name in dir(module)


@pytest.mark.parametrize("package", EVERYDAY)
def test_everyday_names_are_offered_by_tpack_and_are_the_same(package):
    top, module = importlib.import_module("tpack"), importlib.import_module(package)
    for name in EXPORTS[package].split():
        assert getattr(top, name) is getattr(module, name)


def exit_code(code):
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode


def test_star_import_gives_every_name():
    code = "from tpack import *; import tpack; assert set(tpack.__all__) < set(globals())"
    assert exit_code(code) == 0


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'SyncMultiGPUTrainerReplicate'"):
        importlib.import_module("tpack").SyncMultiGPUTrainerReplicate  # noqa: B018 (reading it is the test)


def test_a_name_without_tensorflow_loads_no_tensorflow():
    code = "import sys; from tpack import BatchData, logger; assert 'tensorflow' not in sys.modules"
    assert exit_code(code) == 0
