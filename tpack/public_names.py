"""The public names of tpack by topic, in the order of the documents: the one list.

``tpack`` has these names, and the site's page ``names.md`` a line on each; ``from tpack import *`` gives them and those
of `FOR_STAR`. The ``__all__`` of a package has its others.
"""

GROUPS: dict[str, dict[str, str]] = {
    "Describe a model": {
        "graph_builder": "ModelDesc ModelDescBase",
        "keras": "KerasModel",
        "tower": "TowerContext get_current_tower_context",
    },
    "Train it": {
        "train": (
            "AutoResumeTrainConfig DEFAULT_CALLBACKS DEFAULT_MONITORS StopTraining TrainConfig "
            "TrainLoop launch_train_with_config"
        ),
        "keras": "fit",
        "tuning": "LargestBatch LearningRateRange ModelFlops find_batch_size find_learning_rate",
    },
    "Trainers": {
        "train": (
            "AsyncMultiGPUTrainer BuilderTrainer DistributedTrainerParameterServer DistributedTrainerReplicated "
            "MultiWorkerStrategyTrainer MultiWorkerTrainerReplicated NoOpTrainer SimpleTrainer "
            "SingleCostTrainer StrategyTrainer SyncMultiGPUTrainer SyncMultiGPUTrainerHierarchical "
            "SyncMultiGPUTrainerParameterServer SyncMultiGPUTrainerReplicated TowerTrainer Trainer WaitLimits"
        )
    },
    "Graph builders and reduction": {
        "graph_builder": (
            "AsyncMultiGPUBuilder BuildResult DataParallelBuilder GraphBuilder LeastLoadedDeviceSetter SimpleBuilder "
            "SyncMultiGPUParameterServerBuilder SyncMultiGPUReplicatedBuilder allreduce_grads"
        ),
        "train": "StrategyBuilder",
    },
    "What travels between workers": {
        "multi_worker": (
            "Codec ErrorFeedback Exchange Int8 Memory MomentumCorrection MomentumFeedback OneBit PowerSGD TopK "
            "UnevenData make_exchange sharded_embedding"
        )
    },
    "Layers and regularisation": {
        "models": (
            "AvgPooling BNReLU BatchNorm BatchRenorm ConcatWith Conv2D Conv2DTranspose Deconv2D Dropout "
            "FixedUnPooling FullyConnected GlobalAvgPooling GroupNorm InstanceNorm LayerNorm LinearWrap MaxPooling "
            "Maxout PReLU VariableHolder add_keras_losses disable_layer_logging l1_regularizer l2_regularizer "
            "layer_register regularize_cost regularize_cost_from_collection rename_tflayer_get_variable"
        ),
        "tfutils": "argscope enable_argscope_for_function enable_argscope_for_module get_arg_scope",
    },
    "Optimizers, gradients, summaries and variables": {
        "optimizers": (
            "Adafactor AdamW BIASES_AND_NORMS LAMB LARS Lion Lookahead Muon OneBitAdam OptimizerMonitor Recompute SAM "
            "SpikeGuard Unfreeze"
        ),
        "tfutils": "get_global_step_value get_global_step_var gradproc optimizer summary varreplace",
    },
    "Sessions, checkpoints and loading weights": {
        "tfutils": (
            "ChainInit DictRestore JustCurrentSession SaverRestore SaverRestoreRelaxed SessionInit SmartInit "
            "get_default_sess_config get_model_loader sesscreate sessinit"
        )
    },
    "Data: the contract, and where data points come from": {
        "dataflow": (
            "AdaptedData CurveKeys DataFlow DataFlowTerminated DataFromArrays DataFromGenerator DataFromIterable "
            "DataFromList DataFromQueue FakeData HDF5Data ImageFromFile IndexedDataFlow LMDBData LMDBDataDecoder "
            "ProxyDataFlow RNGDataFlow SVMLightData StatelessError TFRecordData TarData UnknownLengthError as_dataflow "
            "dataset make_curve_keys"
        )
    },
    "Data: changing, joining and batching data points": {
        "dataflow": (
            "AugmentImageComponent AugmentImageComponents AugmentImageCoordinates BatchData BatchDataByShape "
            "CacheData ConcatData CutMix FixedSizeData FlatMapData JoinData LocallyShuffleData MapData "
            "MapDataComponent MixUp PrintData RandomChooseData RandomMixData RepeatedData RepeatedDataPoint "
            "SelectComponent TestDataSpeed imgaug"
        )
    },
    "Data: threads, processes, other machines and files": {
        "dataflow": (
            "HDF5Serializer LMDBSerializer MultiProcessMapAndBatchData MultiProcessMapAndBatchDataZMQ "
            "MultiProcessMapData MultiProcessMapDataZMQ MultiProcessRunner MultiProcessRunnerZMQ MultiThreadMapData "
            "MultiThreadRunner NumpySerializer RemoteDataZMQ RemoteOptions RemoteStats ShardData TFRecordSerializer "
            "TarSerializer send_dataflow_zmq shard_files start_workers_by"
        )
    },
    "From data to the graph": {
        "input_source": (
            "BatchQueueInput DummyConstantInput FeedInput FeedfreeInput InputSource PlaceholderInput QueueInput "
            "StagingInput TFDatasetInput TensorInput ZMQInput remap_input_source"
        )
    },
    "Callbacks: the contract, and when they run": {
        "callbacks": (
            "Callback CallbackFactory CallbackToHook Callbacks EnableCallbackIf HookToCallback PeriodicCallback "
            "PeriodicTrigger ProxyCallback RunOp RunUpdateOps StartProcOrThread"
        )
    },
    "Callbacks: saving and stopping": {
        "callbacks": "EarlyStopping MaxSaver MaxTime MinSaver ModelSaver SessionRunTimeout Watchdog",
        "multi_worker": "MemorySaver",
    },
    "Callbacks: validation": {
        "callbacks": (
            "BinaryClassificationStats ClassificationError DataParallelInferenceRunner InferenceRunner "
            "InferenceRunnerBase Inferencer ScalarStats"
        )
    },
    "Callbacks: hyperparameters and averages": {
        "callbacks": (
            "EMA GraphVarParam HumanHyperParamSetter HyperParam HyperParamSetter HyperParamSetterWithFunc "
            "ObjAttrParam SWA ScaleWithWorkers ScheduledHyperParamSetter SimpleMovingAverage StatMonitorParamSetter"
        )
    },
    "Callbacks: looking at tensors and at the machine": {
        "callbacks": (
            "CheckNumerics DumpParamAsImage DumpTensor DumpTensorAsImage DumpTensors EstimatedTimeLeft "
            "GPUMemoryTracker GPUUtilizationTracker GradientNoiseScale GraphProfiler HostMemoryTracker "
            "PeakMemoryTracker ProcessTensors Profile ProgressBar TensorPrinter ThroughputTracker"
        )
    },
    "Callbacks: summaries and monitors": {
        "callbacks": (
            "CSVWriter CometMonitor JSONWriter MLflowMonitor MergeAllSummaries MergeScalars MonitorBase Monitors "
            "MovingAverageSummary ScalarPrinter SendMonitorData SendStat SlowestWorker TFEventWriter "
            "TensorBoardHParams WandbMonitor"
        )
    },
    "Prediction": {
        "predict": (
            "DataParallelOfflinePredictor DatasetPredictorBase FeedfreePredictor MultiProcessDatasetPredictor "
            "MultiThreadAsyncPredictor MultiTowerOfflinePredictor OfflinePredictor OnlinePredictor PredictConfig "
            "PredictorBase SimpleDatasetPredictor"
        )
    },
    "Distribution strategies": {
        "distribute": (
            "CollectiveAllReduceStrategy DistributedMovingAverage DistributedOptimizer DistributionStrategy "
            "MirroredStrategy OneDeviceStrategy ParameterServerStrategy get_cross_tower_context "
            "get_distribution_strategy get_tower_context has_distribution_strategy"
        )
    },
    "Estimators": {
        "estimator": (
            "Estimator EstimatorSpec EvalSpec ModeKeys RunConfig TowerOptimizer TrainSpec replicate_model_fn "
            "train_and_evaluate"
        )
    },
    "Logging, random numbers and the environment": {
        "utils": "change_env execute_only_once fix_rng_seed get_rng get_tqdm humanize_time_delta logger",
        "tfutils": "collect_env_info",
        "compat": "get_tf_version_tuple tfv1",
    },
    "Scripts that import tensorpack or Horovod": {
        "legacy.as_tensorpack": "install_as_tensorpack",
        "legacy.as_horovod": "install_as_horovod",
    },
}
"""For each group the packages that its names come from, and the names, separated by spaces."""


FOR_STAR = (
    "BytePSTrainer",
    "CaffeLMDB",
    "CometMLMonitor",
    "FeedfreeInferenceRunner",
    "HorovodTrainer",
    "InjectShell",
    "InputDesc",
    "LMDBDataPoint",
    "LeakyReLU",
    "MultiProcessPrefetchData",
    "MultiThreadPrefetchData",
    "NewSession",
    "ParamRestore",
    "PrefetchData",
    "PrefetchDataZMQ",
    "QueueInputTrainer",
    "SoftMax",
    "StagingInputWrapper",
    "StatPrinter",
    "TFLocalCLIDebugHook",
    "TFSummaryWriter",
    "ThreadedMapData",
    "TrainingMonitor",
    "TryResumeTraining",
    "callbacks",
    "compat",
    "dataflow",
    "dftools",
    "dump_chkpt_vars",
    "get_op_tensor_name",
    "graph_builder",
    "input_source",
    "libinfo",
    "models",
    "predict",
    "symbolic_functions",
    "tfutils",
    "tower",
    "train",
    "utils",
)
"""The other names that ``from tpack import *`` gives, as that of tensorpack did: older names, and packages.

Scripts use them without another import.
"""


def names_by_package() -> dict[str, tuple[str, ...]]:
    """Return the public names of each package, over all groups."""
    found: dict[str, tuple[str, ...]] = {}
    for packages in GROUPS.values():
        for package, names in packages.items():
            found[package] = (*found.get(package, ()), *names.split())
    return found
