"""What each package offers is written here by hand: a name that comes or goes is a decision, not an accident."""

import importlib
import subprocess
import sys

import pytest

from tests.helpers.source import ROOT, modules_under

EXPORTS = {
    "tpack": """
        AdaptedData AsyncMultiGPUBuilder AsyncMultiGPUTrainer AugmentImageComponent AugmentImageComponents
        AugmentImageCoordinates AutoResumeTrainConfig AvgPooling BNReLU BatchData BatchDataByShape BatchNorm
        BatchQueueInput BatchRenorm BinaryClassificationStats BuildResult BuilderTrainer CacheData Callback
        CallbackFactory CallbackToHook Callbacks ChainInit CheckNumerics ClassificationError
        CollectiveAllReduceStrategy ConcatData ConcatWith Conv2D Conv2DTranspose CurveKeys DEFAULT_CALLBACKS
        DEFAULT_MONITORS DataFlow DataFlowTerminated DataFromGenerator DataFromIterable DataFromList DataFromQueue
        DataParallelBuilder DataParallelInferenceRunner DataParallelOfflinePredictor DatasetPredictorBase Deconv2D
        DictRestore DistributedMovingAverage DistributedOptimizer DistributionStrategy Dropout DummyConstantInput
        DumpParamAsImage DumpTensor DumpTensorAsImage DumpTensors EMA EarlyStopping EnableCallbackIf
        EstimatedTimeLeft Estimator EstimatorSpec EvalSpec FakeData FeedInput FeedfreeInput FeedfreePredictor
        FixedSizeData FixedUnPooling FullyConnected GPUMemoryTracker GPUUtilizationTracker GlobalAvgPooling
        GraphBuilder GraphProfiler GraphVarParam GroupNorm HDF5Data HDF5Serializer HookToCallback HostMemoryTracker
        HumanHyperParamSetter HyperParam HyperParamSetter HyperParamSetterWithFunc ImageFromFile IndexedDataFlow
        InferenceRunner InferenceRunnerBase Inferencer InputSource InstanceNorm JSONWriter JoinData
        JustCurrentSession LMDBData LMDBDataDecoder LMDBSerializer LayerNorm LeastLoadedDeviceSetter LinearWrap
        LocallyShuffleData MapData MapDataComponent MaxPooling MaxSaver Maxout MergeAllSummaries MinSaver
        MirroredStrategy ModeKeys ModelDesc ModelDescBase ModelSaver MonitorBase Monitors MovingAverageSummary
        MultiProcessDatasetPredictor MultiProcessMapAndBatchData MultiProcessMapAndBatchDataZMQ MultiProcessMapData
        MultiProcessMapDataZMQ MultiProcessRunner MultiProcessRunnerZMQ MultiThreadAsyncPredictor MultiThreadMapData
        MultiThreadRunner MultiTowerOfflinePredictor NoOpTrainer NumpySerializer ObjAttrParam OfflinePredictor
        OneDeviceStrategy OnlinePredictor PReLU ParameterServerStrategy PeakMemoryTracker PeriodicCallback
        PeriodicTrigger PlaceholderInput PredictConfig PredictorBase PrintData ProcessTensors ProgressBar
        ProxyCallback ProxyDataFlow QueueInput RNGDataFlow RandomChooseData RandomMixData RemoteDataZMQ
        RemoteOptions RemoteStats RepeatedData RepeatedDataPoint RunConfig RunOp RunUpdateOps SVMLightData
        SaverRestore SaverRestoreRelaxed ScalarPrinter ScalarStats ScheduledHyperParamSetter SelectComponent
        SendMonitorData SendStat SessionInit SessionRunTimeout SimpleBuilder SimpleDatasetPredictor
        SimpleMovingAverage SimpleTrainer SingleCostTrainer SmartInit StagingInput StartProcOrThread
        StatMonitorParamSetter StatelessError StopTraining StrategyBuilder StrategyTrainer
        SyncMultiGPUParameterServerBuilder SyncMultiGPUReplicatedBuilder SyncMultiGPUTrainer
        SyncMultiGPUTrainerHierarchical SyncMultiGPUTrainerParameterServer SyncMultiGPUTrainerReplicated
        TFDatasetInput TFEventWriter TFRecordData TFRecordSerializer TensorInput TensorPrinter TestDataSpeed
        ThroughputTracker TowerContext TowerOptimizer TowerTrainer TrainConfig TrainLoop TrainSpec Trainer
        UnknownLengthError VariableHolder Watchdog ZMQInput add_keras_losses allreduce_grads argscope as_dataflow
        change_env collect_env_info dataset disable_layer_logging enable_argscope_for_function
        enable_argscope_for_module execute_only_once fix_rng_seed get_arg_scope get_cross_tower_context
        get_current_tower_context get_default_sess_config get_distribution_strategy get_global_step_value
        get_global_step_var get_model_loader get_rng get_tf_version_tuple get_tower_context get_tqdm gradproc
        has_distribution_strategy humanize_time_delta imgaug l1_regularizer l2_regularizer launch_train_with_config
        layer_register logger make_curve_keys optimizer regularize_cost regularize_cost_from_collection
        remap_input_source rename_tflayer_get_variable replicate_model_fn send_dataflow_zmq sesscreate sessinit
        start_workers_by summary train_and_evaluate varreplace
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
        AdaptedData AugmentImageComponent AugmentImageComponents AugmentImageCoordinates BatchData BatchDataByShape
        CacheData ConcatData CurveKeys DataFlow DataFlowTerminated DataFromGenerator DataFromIterable DataFromList
        DataFromQueue FakeData FixedSizeData HDF5Data HDF5Serializer ImageFromFile IndexedDataFlow JoinData LMDBData
        LMDBDataDecoder LMDBSerializer LocallyShuffleData MapData MapDataComponent MultiProcessMapAndBatchData
        MultiProcessMapAndBatchDataZMQ MultiProcessMapData MultiProcessMapDataZMQ MultiProcessRunner
        MultiProcessRunnerZMQ MultiThreadMapData MultiThreadRunner NumpySerializer PrintData ProxyDataFlow
        RNGDataFlow RandomChooseData RandomMixData RemoteDataZMQ RemoteOptions RemoteStats RepeatedData
        RepeatedDataPoint SVMLightData SelectComponent StatelessError TFRecordData TFRecordSerializer TestDataSpeed
        UnknownLengthError as_dataflow dataset imgaug make_curve_keys send_dataflow_zmq start_workers_by
    """,
    "tpack.dataflow.dataset": """
        BSDS500 Caltech101Silhouettes Cifar10 Cifar100 CifarBase Digits FashionMnist ILSVRC12 ILSVRC12Files
        ILSVRCMeta Mnist Places365Standard SVHNDigit TinyImageNet
    """,
    "tpack.dataflow.imgaug": """
        Affine Albumentations Augmentor AugmentorList BackgroundFiller Brightness BrightnessScale CenterCrop
        CenterPaste Clip ColorSpace ConstantBackgroundFiller Contrast CropTransform Flip FlipTransform Gamma
        GaussianBlur GaussianNoise GoogleNetRandomCropAndResize Grayscale Hue IAAugmentor Identity ImageAugmentor
        JpegNoise Lighting MapImage MeanVarianceNormalize MinMaxNormalize PhotometricAugmentor RandomApplyAug
        RandomChooseAug RandomCrop RandomCropRandomShape RandomCutout RandomOrderAug RandomPaste RandomResize Resize
        ResizeShortestEdge ResizeTransform Rotation RotationAndCropValid SaltPepperNoise Saturation Shift ToFloat32
        ToUint8 Transform TransformFactory TransformList Transpose
    """,
    "tpack.dataflow.parallel": """
        MultiProcessMapAndBatchData MultiProcessMapAndBatchDataZMQ MultiProcessMapData MultiProcessMapDataZMQ
        MultiProcessRunner MultiProcessRunnerZMQ MultiThreadMapData MultiThreadRunner start_workers_by
    """,
    "tpack.distribute": """
        AllReduceCrossTowerOps CollectiveAllReduce CollectiveAllReduceStrategy CrossTowerOps
        DistributedMovingAverage DistributedOptimizer DistributedValues DistributionStrategy MapOutput Mirrored
        MirroredStrategy MirroredVariable MultiWorkerAllReduce OneDeviceStrategy ParameterServerStrategy PerDevice
        PerDeviceDataset ReducerCrossTowerOps ReductionToOneDeviceCrossTowerOps TowerContext TowerLocalVariable
        UpdateContext choose_the_best get_cross_tower_context get_distribution_strategy get_loss_reduction
        get_tower_context get_update_device has_distribution_strategy increment_var regroup require_tower_context
        select_device select_device_mirrored
    """,
    "tpack.estimator": """
        BestExporter ClassificationOutput Estimator EstimatorSpec EvalSpec ExportOutput Exporter FinalExporter
        LatestExporter ModeKeys PredictOutput RegressionOutput RunConfig ServingInputReceiver TowerOptimizer
        TrainSpec VariablePlacement WarmStartSettings build_parsing_serving_input_receiver_fn
        build_raw_serving_input_receiver_fn replicate_model_fn replicate_model_fn_with_optimizer_fn
        train_and_evaluate
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
        StagingInput TFDatasetInput TensorInput ZMQInput remap_input_source
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
        pair_variables provide_cpu_devices required_cpu_devices resolve_device resolve_devices restore_collection
        tower_name
    """,
    "tpack.train": """
        AsyncMultiGPUTrainer AutoResumeTrainConfig BuilderTrainer DEFAULT_CALLBACKS DEFAULT_MONITORS ModelDesc
        ModelDescBase NoOpTrainer SimpleTrainer SingleCostTrainer StopTraining StrategyBuilder StrategyTrainer
        SyncMultiGPUTrainer SyncMultiGPUTrainerHierarchical SyncMultiGPUTrainerParameterServer
        SyncMultiGPUTrainerReplicated TowerTrainer TrainConfig TrainLoop Trainer launch_train_with_config
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
