"""The present places of tensorpack's modules and names of 2017 to 2019.

Nothing is imported before its first use. A module of tensorpack with another name in tpack is an `OlderModule`, from
the last finder of `tpack.utils.renames`; packages look up renamed and removed names by `load`.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

_NAMES = {
    "callbacks": "CometMLMonitor InjectShell TFLocalCLIDebugHook",
    "dataflow": (
        "CaffeLMDB LMDBDataPoint MultiProcessPrefetchData MultiThreadPrefetchData PrefetchData PrefetchDataZMQ "
        "ThreadedMapData dump_dataflow_to_lmdb dump_dataflow_to_process_queue dump_dataflow_to_tfrecord "
        "get_tqdm_kwargs serve_data"
    ),
    "imgaug": "PhotometricAugmentor TransformAugmentorBase",
    "models": (
        "BilinearUpSample ImageSample LeakyReLU SoftMax StaticDynamicAxis StaticDynamicShape convert_to_tflayer_args "
        "parse_args rename_get_variable"
    ),
    "training": (
        "BytePSTrainer EnqueueThread FeedfreeInferenceRunner HorovodTrainer InputDesc NewSession ParamRestore "
        "QueueInputTrainer SimpleFeedfreeTrainer StagingInputWrapper StatPrinter TFSummaryWriter TrainingMonitor "
        "Triggerable TryResumeTraining dump_chkpt_vars get_all_checkpoints get_global_step get_op_tensor_name "
        "get_tf_version get_tf_version_number"
    ),
    "losses": (
        "center_loss class_balanced_cross_entropy contrastive_loss cosine_loss huber_loss shapeless_placeholder "
        "siamese_cosine_loss soft_triplet_loss triplet_loss"
    ),
    "utils": "IterSpeedCounter create_dummy_class create_dummy_func get_caffe_pb load_caffe",
}
NAMES: dict[str, tuple[str, ...]] = {module: tuple(names.split()) for module, names in _NAMES.items()}
"""The names for older scripts, by their module of ``tpack.legacy.code``."""

_CALLBACKS_GRAPH = (
    "CheckNumerics DumpParamAsImage DumpTensor DumpTensorAsImage DumpTensors ProcessTensors RunOp RunUpdateOps"
)
_SETTERS = (
    "GraphVarParam HumanHyperParamSetter HyperParam HyperParamSetter HyperParamSetterWithFunc ObjAttrParam "
    "ScheduledHyperParamSetter StatMonitorParamSetter"
)
_FLOWS = (
    "BatchData BatchDataByShape CacheData ConcatData FixedSizeData JoinData LocallyShuffleData MapData "
    "MapDataComponent PrintData RandomChooseData RandomMixData RepeatedData RepeatedDataPoint SelectComponent "
    "TestDataSpeed"
)
_RUNNERS = "MultiProcessRunner MultiProcessRunnerZMQ MultiThreadRunner PrefetchData PrefetchDataZMQ"
_MAPPERS = "MultiProcessMapAndBatchData MultiProcessMapData MultiProcessMapDataZMQ MultiThreadMapData ThreadedMapData"
_SOURCES = (
    "BatchQueueInput DummyConstantInput FeedInput FeedfreeInput InputSource PlaceholderInput QueueInput StagingInput "
    "StagingInputWrapper TFDatasetInput TensorInput ZMQInput remap_input_source"
)
_BUILDERS = (
    "AsyncMultiGPUBuilder DataParallelBuilder GraphBuilder SyncMultiGPUParameterServerBuilder "
    "SyncMultiGPUReplicatedBuilder"
)
_TRAINERS = (
    "AsyncMultiGPUTrainer SimpleTrainer SyncMultiGPUTrainer SyncMultiGPUTrainerParameterServer "
    "SyncMultiGPUTrainerReplicated"
)

MODULES: dict[str, tuple[str, str]] = {
    "callbacks.concurrency": ("callbacks", "StartProcOrThread"),
    "callbacks.graph": ("callbacks", _CALLBACKS_GRAPH),
    "callbacks.inference_runner": ("callbacks", "DataParallelInferenceRunner InferenceRunner InferenceRunnerBase"),
    "callbacks.misc": ("callbacks", "EstimatedTimeLeft InjectShell SendStat"),
    "callbacks.monitor": (
        "callbacks",
        "CometMLMonitor JSONWriter MonitorBase Monitors ScalarPrinter SendMonitorData TFEventWriter TFSummaryWriter "
        "TrainingMonitor",
    ),
    "callbacks.param": ("callbacks", _SETTERS),
    "callbacks.prof": (
        "callbacks",
        "GPUMemoryTracker GPUUtilizationTracker GraphProfiler HostMemoryTracker PeakMemoryTracker ThroughputTracker",
    ),
    "callbacks.stats": ("callbacks", "DumpParamAsImage SendStat"),
    "callbacks.steps": ("callbacks", "ProgressBar SessionRunTimeout TensorPrinter"),
    "cluster": (
        "multi_worker.cluster",
        "ClusterMember ClusterRank ClusterTask Peers connect_peers expand_hosts resolve_cluster",
    ),
    "copying": ("graph_copy", "TowerBuilding alike_in_towers call_in_alike_towers"),
    "dataflow.common": ("dataflow", _FLOWS),
    "dataflow.dftools": (
        "legacy.code.dataflow",
        "dump_dataflow_to_lmdb dump_dataflow_to_process_queue dump_dataflow_to_tfrecord",
    ),
    "dataflow.format": (
        "dataflow",
        "CaffeLMDB HDF5Data LMDBData LMDBDataDecoder LMDBDataPoint SVMLightData TFRecordData",
    ),
    "dataflow.image": (
        "dataflow",
        "AugmentImageComponent AugmentImageComponents AugmentImageCoordinates ImageFromFile MapDataComponent",
    ),
    "dataflow.imgaug.convert": ("dataflow.imgaug", "ColorSpace Grayscale ToFloat32 ToUint8"),
    "dataflow.imgaug.deform": ("dataflow.imgaug", ""),
    "dataflow.imgaug.external": ("dataflow.imgaug", "Albumentations IAAugmentor"),
    "dataflow.imgaug.imgproc": (
        "dataflow.imgaug",
        "Brightness BrightnessScale Clip Contrast Gamma GaussianBlur Hue Lighting MeanVarianceNormalize "
        "MinMaxNormalize Saturation",
    ),
    "dataflow.imgaug.misc": ("dataflow.imgaug", "Flip RandomResize Resize ResizeShortestEdge Transpose"),
    "dataflow.imgaug.noise": ("dataflow.imgaug", "GaussianNoise JpegNoise SaltPepperNoise"),
    "dataflow.imgaug.noname": ("dataflow.imgaug", "Flip RandomResize Resize ResizeShortestEdge"),
    "dataflow.imgaug.transform": (
        "dataflow.imgaug",
        "CropTransform FlipTransform ResizeTransform Transform TransformAugmentorBase TransformFactory TransformList",
    ),
    "dataflow.parallel_map": ("dataflow", _MAPPERS),
    "dataflow.prefetch": ("dataflow", f"{_RUNNERS} {_MAPPERS}"),
    "dataflow.raw": ("dataflow", "DataFromGenerator DataFromIterable DataFromList DataFromQueue FakeData"),
    "dataflow.serialize": ("dataflow", "HDF5Serializer LMDBSerializer NumpySerializer TFRecordSerializer"),
    "graph_builder.input_source": ("input_source", _SOURCES),
    "graph_builder.input_source_base": ("input_source", "InputSource remap_input_source"),
    "graph_builder.training": ("graph_builder", _BUILDERS),
    "graph_builder.utils": ("graph_builder", "LeastLoadedDeviceSetter OverrideCachingDevice allreduce_grads"),
    "input_source.input_source": ("input_source", _SOURCES),
    "input_source.input_source_base": ("input_source", "InputSource remap_input_source"),
    "libinfo": ("version", "__version__"),
    "models.common": ("models", "VariableHolder disable_layer_logging get_registered_layer layer_register"),
    "models.image_sample": ("models", "ImageSample"),
    "models.layer_norm": ("models", "InstanceNorm LayerNorm"),
    "models.shape_utils": ("models", "StaticDynamicAxis StaticDynamicShape"),
    "models.shapes": ("models", "ConcatWith"),
    "models.softmax": ("models", "SoftMax"),
    "models.tflayer": ("models", "convert_to_tflayer_args rename_get_variable rename_tflayer_get_variable"),
    "models.utils": ("models", "VariableHolder"),
    "older_names": ("legacy", " ".join(name for names in NAMES.values() for name in names)),
    "predict.common": ("predict", "OfflinePredictor PredictConfig"),
    "predict.concurrency": ("predict", "MultiThreadAsyncPredictor"),
    "predict.multigpu": ("predict", "DataParallelOfflinePredictor MultiTowerOfflinePredictor"),
    "tfutils.modelutils": ("tfutils.model_utils", "describe_trainable_vars get_shape_str"),
    "train.base": ("train", "StopTraining TrainLoop Trainer"),
    "train.feedfree": ("train", "QueueInputTrainer SimpleFeedfreeTrainer"),
    "train.model_desc": ("train", "InputDesc ModelDesc ModelDescBase"),
    "train.multigpu": ("train", _TRAINERS),
    "train.simple": ("train", "QueueInputTrainer SimpleTrainer"),
    "train.tower": ("train", "SingleCostTrainer TowerTrainer"),
    "utils.develop": (
        "legacy.code.utils",
        "building_rtfd create_dummy_class create_dummy_func deprecated log_deprecated",
    ),
    "utils.globvars": ("legacy.code.utils", "globalns use_global_argument"),
    "utils.loadcaffe": ("legacy.code.utils", "get_caffe_pb load_caffe"),
    "utils.nvml": ("utils.gpu", "NVMLContext"),
    "utils.palette": ("utils.viz", "PALETTE_RGB"),
    "utils.rect": ("legacy.code.rect", "BoxBase FloatBox IntBox"),
    "utils.stat": ("utils.stats", "Accuracy BinaryStatistics OnlineMoments RatioCounter StatCounter"),
    "utils.utils": (
        "utils",
        "change_env execute_only_once fix_rng_seed get_rng get_tqdm get_tqdm_kwargs humanize_time_delta",
    ),
}
"""For each of tensorpack's modules with another name here: the module with its names, and the names."""

# tpack's own names of before 0.1, in modules that moved.
_RENAMED = {"alike_in_towers": "replicate_by_copy", "call_in_alike_towers": "call_in_replicated_towers"}
# Names that only a module has, and not its package.
_INSIDE = {
    "get_registered_layer": "models.registry",
    "get_current_tower_context": "tower.context",
    "TowerContext": "tower.context",
    "PredictTowerContext": "tower.context",
}

_WHOLE_MODULES = {
    "dftools": "legacy.code.dataflow",
    "libinfo": "libinfo",
    "symbolic_functions": "tfutils.symbolic_functions",
}
_HOMES = {name: f"legacy.code.{module}" for module, names in NAMES.items() for name in names}
# ``tensorpack.dataflow.dataset`` had them as well.
_HOMES["RNGDataFlow"] = "dataflow.base"
_WHOLE_MODULES["logger"] = "utils.logger"
# A module of a higher level, loaded when a name is used.
_LOGGER = "tpack.utils.logger"
_said: set[str] = set()


def say(older: str, today: str) -> None:
    """Log the present spelling of an older name, once for each."""
    if older not in _said:
        _said.add(older)
        importlib.import_module(_LOGGER).info(f"tensorpack's older name {older}: today it is {today}")


def knows(name: str) -> bool:
    """Tell whether an older name exists."""
    return name in _HOMES or name in _WHOLE_MODULES


def load(name: str) -> Any:
    """Return the object of an older name.

    Raises:
        AttributeError: The name is unknown.
    """
    if name in _WHOLE_MODULES:
        return importlib.import_module(f"tpack.{_WHOLE_MODULES[name]}")
    if name not in _HOMES:
        raise AttributeError(f"tensorpack's older names have no {name!r}")
    return getattr(importlib.import_module(f"tpack.{_HOMES[name]}"), name)


def find_in(module: str, name: str) -> Any:
    """Look up a name that a present module lacks among the older names and in its package.

    Raises:
        AttributeError: Neither has it.
    """
    package = module.rpartition(".")[0]
    if knows(name):
        return load(name)
    if name not in sys.modules[package].__all__:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    say(f"{module}.{name}", f"{package}.{name}")
    return getattr(sys.modules[package], name)


class OlderModule(ModuleType):
    """A module of tensorpack whose names are elsewhere; the first use of one is logged.

    Args:
        path: its name below ``tpack``.
    """

    def __init__(self, path: str) -> None:
        today, names = MODULES[path]
        super().__init__(f"tpack.{path}", f"tensorpack's module of this name; what it had is in ``tpack.{today}``.")
        self.__all__ = names.split()
        self._path, self._today = path, today

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = load(name) if knows(name) else self._find(name)
        say(f"tpack.{self._path}", f"tpack.{self._today}")
        return value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.__all__]

    def _find(self, name: str) -> Any:
        module = importlib.import_module(f"tpack.{_INSIDE.get(name, self._today)}")
        today = _RENAMED.get(name, name)
        if not hasattr(module, today):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}; tpack.{self._today} has none")
        return getattr(module, today)
