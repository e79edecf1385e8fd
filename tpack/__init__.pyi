"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from typing import Any

from tpack import callbacks as callbacks
from tpack import compat as compat
from tpack import dataflow as dataflow
from tpack import distribute as distribute
from tpack import estimator as estimator
from tpack import graph_builder as graph_builder
from tpack import input_source as input_source
from tpack import keras as keras
from tpack import models as models
from tpack import multi_worker as multi_worker
from tpack import optimizers as optimizers
from tpack import predict as predict
from tpack import tfutils as tfutils
from tpack import tower as tower
from tpack import train as train
from tpack import tuning as tuning
from tpack import utils as utils
from tpack.callbacks import EMA as EMA
from tpack.callbacks import SWA as SWA
from tpack.callbacks import BinaryClassificationStats as BinaryClassificationStats
from tpack.callbacks import Callback as Callback
from tpack.callbacks import CallbackFactory as CallbackFactory
from tpack.callbacks import Callbacks as Callbacks
from tpack.callbacks import CallbackToHook as CallbackToHook
from tpack.callbacks import CheckNumerics as CheckNumerics
from tpack.callbacks import ClassificationError as ClassificationError
from tpack.callbacks import CometMonitor as CometMonitor
from tpack.callbacks import CSVWriter as CSVWriter
from tpack.callbacks import DataParallelInferenceRunner as DataParallelInferenceRunner
from tpack.callbacks import DumpParamAsImage as DumpParamAsImage
from tpack.callbacks import DumpTensor as DumpTensor
from tpack.callbacks import DumpTensorAsImage as DumpTensorAsImage
from tpack.callbacks import DumpTensors as DumpTensors
from tpack.callbacks import EarlyStopping as EarlyStopping
from tpack.callbacks import EnableCallbackIf as EnableCallbackIf
from tpack.callbacks import EstimatedTimeLeft as EstimatedTimeLeft
from tpack.callbacks import GPUMemoryTracker as GPUMemoryTracker
from tpack.callbacks import GPUUtilizationTracker as GPUUtilizationTracker
from tpack.callbacks import GradientNoiseScale as GradientNoiseScale
from tpack.callbacks import GraphProfiler as GraphProfiler
from tpack.callbacks import GraphVarParam as GraphVarParam
from tpack.callbacks import HookToCallback as HookToCallback
from tpack.callbacks import HostMemoryTracker as HostMemoryTracker
from tpack.callbacks import HumanHyperParamSetter as HumanHyperParamSetter
from tpack.callbacks import HyperParam as HyperParam
from tpack.callbacks import HyperParamSetter as HyperParamSetter
from tpack.callbacks import HyperParamSetterWithFunc as HyperParamSetterWithFunc
from tpack.callbacks import Inferencer as Inferencer
from tpack.callbacks import InferenceRunner as InferenceRunner
from tpack.callbacks import InferenceRunnerBase as InferenceRunnerBase
from tpack.callbacks import JSONWriter as JSONWriter
from tpack.callbacks import MaxSaver as MaxSaver
from tpack.callbacks import MaxTime as MaxTime
from tpack.callbacks import MergeAllSummaries as MergeAllSummaries
from tpack.callbacks import MergeScalars as MergeScalars
from tpack.callbacks import MinSaver as MinSaver
from tpack.callbacks import MLflowMonitor as MLflowMonitor
from tpack.callbacks import ModelSaver as ModelSaver
from tpack.callbacks import MonitorBase as MonitorBase
from tpack.callbacks import Monitors as Monitors
from tpack.callbacks import MovingAverageSummary as MovingAverageSummary
from tpack.callbacks import ObjAttrParam as ObjAttrParam
from tpack.callbacks import PeakMemoryTracker as PeakMemoryTracker
from tpack.callbacks import PeriodicCallback as PeriodicCallback
from tpack.callbacks import PeriodicTrigger as PeriodicTrigger
from tpack.callbacks import ProcessTensors as ProcessTensors
from tpack.callbacks import Profile as Profile
from tpack.callbacks import ProgressBar as ProgressBar
from tpack.callbacks import ProxyCallback as ProxyCallback
from tpack.callbacks import RunOp as RunOp
from tpack.callbacks import RunUpdateOps as RunUpdateOps
from tpack.callbacks import ScalarPrinter as ScalarPrinter
from tpack.callbacks import ScalarStats as ScalarStats
from tpack.callbacks import ScaleWithWorkers as ScaleWithWorkers
from tpack.callbacks import ScheduledHyperParamSetter as ScheduledHyperParamSetter
from tpack.callbacks import SendMonitorData as SendMonitorData
from tpack.callbacks import SendStat as SendStat
from tpack.callbacks import SessionRunTimeout as SessionRunTimeout
from tpack.callbacks import SimpleMovingAverage as SimpleMovingAverage
from tpack.callbacks import SlowestWorker as SlowestWorker
from tpack.callbacks import StartProcOrThread as StartProcOrThread
from tpack.callbacks import StatMonitorParamSetter as StatMonitorParamSetter
from tpack.callbacks import TensorBoardHParams as TensorBoardHParams
from tpack.callbacks import TensorPrinter as TensorPrinter
from tpack.callbacks import TFEventWriter as TFEventWriter
from tpack.callbacks import ThroughputTracker as ThroughputTracker
from tpack.callbacks import WandbMonitor as WandbMonitor
from tpack.callbacks import Watchdog as Watchdog
from tpack.compat import get_tf_version_tuple as get_tf_version_tuple
from tpack.compat import tfv1 as tfv1
from tpack.dataflow import AdaptedData as AdaptedData
from tpack.dataflow import AugmentImageComponent as AugmentImageComponent
from tpack.dataflow import AugmentImageComponents as AugmentImageComponents
from tpack.dataflow import AugmentImageCoordinates as AugmentImageCoordinates
from tpack.dataflow import BatchData as BatchData
from tpack.dataflow import BatchDataByShape as BatchDataByShape
from tpack.dataflow import CacheData as CacheData
from tpack.dataflow import ConcatData as ConcatData
from tpack.dataflow import CurveKeys as CurveKeys
from tpack.dataflow import CutMix as CutMix
from tpack.dataflow import DataFlow as DataFlow
from tpack.dataflow import DataFlowTerminated as DataFlowTerminated
from tpack.dataflow import DataFromArrays as DataFromArrays
from tpack.dataflow import DataFromGenerator as DataFromGenerator
from tpack.dataflow import DataFromIterable as DataFromIterable
from tpack.dataflow import DataFromList as DataFromList
from tpack.dataflow import DataFromQueue as DataFromQueue
from tpack.dataflow import FakeData as FakeData
from tpack.dataflow import FixedSizeData as FixedSizeData
from tpack.dataflow import FlatMapData as FlatMapData
from tpack.dataflow import HDF5Data as HDF5Data
from tpack.dataflow import HDF5Serializer as HDF5Serializer
from tpack.dataflow import ImageFromFile as ImageFromFile
from tpack.dataflow import IndexedDataFlow as IndexedDataFlow
from tpack.dataflow import JoinData as JoinData
from tpack.dataflow import LMDBData as LMDBData
from tpack.dataflow import LMDBDataDecoder as LMDBDataDecoder
from tpack.dataflow import LMDBSerializer as LMDBSerializer
from tpack.dataflow import LocallyShuffleData as LocallyShuffleData
from tpack.dataflow import MapData as MapData
from tpack.dataflow import MapDataComponent as MapDataComponent
from tpack.dataflow import MixUp as MixUp
from tpack.dataflow import MultiProcessMapAndBatchData as MultiProcessMapAndBatchData
from tpack.dataflow import MultiProcessMapAndBatchDataZMQ as MultiProcessMapAndBatchDataZMQ
from tpack.dataflow import MultiProcessMapData as MultiProcessMapData
from tpack.dataflow import MultiProcessMapDataZMQ as MultiProcessMapDataZMQ
from tpack.dataflow import MultiProcessRunner as MultiProcessRunner
from tpack.dataflow import MultiProcessRunnerZMQ as MultiProcessRunnerZMQ
from tpack.dataflow import MultiThreadMapData as MultiThreadMapData
from tpack.dataflow import MultiThreadRunner as MultiThreadRunner
from tpack.dataflow import NumpySerializer as NumpySerializer
from tpack.dataflow import PrintData as PrintData
from tpack.dataflow import ProxyDataFlow as ProxyDataFlow
from tpack.dataflow import RandomChooseData as RandomChooseData
from tpack.dataflow import RandomMixData as RandomMixData
from tpack.dataflow import RemoteDataZMQ as RemoteDataZMQ
from tpack.dataflow import RemoteOptions as RemoteOptions
from tpack.dataflow import RemoteStats as RemoteStats
from tpack.dataflow import RepeatedData as RepeatedData
from tpack.dataflow import RepeatedDataPoint as RepeatedDataPoint
from tpack.dataflow import RNGDataFlow as RNGDataFlow
from tpack.dataflow import SelectComponent as SelectComponent
from tpack.dataflow import ShardData as ShardData
from tpack.dataflow import StatelessError as StatelessError
from tpack.dataflow import SVMLightData as SVMLightData
from tpack.dataflow import TarData as TarData
from tpack.dataflow import TarSerializer as TarSerializer
from tpack.dataflow import TestDataSpeed as TestDataSpeed
from tpack.dataflow import TFRecordData as TFRecordData
from tpack.dataflow import TFRecordSerializer as TFRecordSerializer
from tpack.dataflow import UnknownLengthError as UnknownLengthError
from tpack.dataflow import as_dataflow as as_dataflow
from tpack.dataflow import dataset as dataset
from tpack.dataflow import imgaug as imgaug
from tpack.dataflow import make_curve_keys as make_curve_keys
from tpack.dataflow import send_dataflow_zmq as send_dataflow_zmq
from tpack.dataflow import shard_files as shard_files
from tpack.dataflow import start_workers_by as start_workers_by
from tpack.distribute import CollectiveAllReduceStrategy as CollectiveAllReduceStrategy
from tpack.distribute import DistributedMovingAverage as DistributedMovingAverage
from tpack.distribute import DistributedOptimizer as DistributedOptimizer
from tpack.distribute import DistributionStrategy as DistributionStrategy
from tpack.distribute import MirroredStrategy as MirroredStrategy
from tpack.distribute import OneDeviceStrategy as OneDeviceStrategy
from tpack.distribute import ParameterServerStrategy as ParameterServerStrategy
from tpack.distribute import get_cross_tower_context as get_cross_tower_context
from tpack.distribute import get_distribution_strategy as get_distribution_strategy
from tpack.distribute import get_tower_context as get_tower_context
from tpack.distribute import has_distribution_strategy as has_distribution_strategy
from tpack.estimator import Estimator as Estimator
from tpack.estimator import EstimatorSpec as EstimatorSpec
from tpack.estimator import EvalSpec as EvalSpec
from tpack.estimator import ModeKeys as ModeKeys
from tpack.estimator import RunConfig as RunConfig
from tpack.estimator import TowerOptimizer as TowerOptimizer
from tpack.estimator import TrainSpec as TrainSpec
from tpack.estimator import replicate_model_fn as replicate_model_fn
from tpack.estimator import train_and_evaluate as train_and_evaluate
from tpack.graph_builder import AsyncMultiGPUBuilder as AsyncMultiGPUBuilder
from tpack.graph_builder import BuildResult as BuildResult
from tpack.graph_builder import DataParallelBuilder as DataParallelBuilder
from tpack.graph_builder import GraphBuilder as GraphBuilder
from tpack.graph_builder import LeastLoadedDeviceSetter as LeastLoadedDeviceSetter
from tpack.graph_builder import ModelDesc as ModelDesc
from tpack.graph_builder import ModelDescBase as ModelDescBase
from tpack.graph_builder import SimpleBuilder as SimpleBuilder
from tpack.graph_builder import SyncMultiGPUParameterServerBuilder as SyncMultiGPUParameterServerBuilder
from tpack.graph_builder import SyncMultiGPUReplicatedBuilder as SyncMultiGPUReplicatedBuilder
from tpack.graph_builder import allreduce_grads as allreduce_grads
from tpack.input_source import BatchQueueInput as BatchQueueInput
from tpack.input_source import DummyConstantInput as DummyConstantInput
from tpack.input_source import FeedfreeInput as FeedfreeInput
from tpack.input_source import FeedInput as FeedInput
from tpack.input_source import InputSource as InputSource
from tpack.input_source import PlaceholderInput as PlaceholderInput
from tpack.input_source import QueueInput as QueueInput
from tpack.input_source import StagingInput as StagingInput
from tpack.input_source import TensorInput as TensorInput
from tpack.input_source import TFDatasetInput as TFDatasetInput
from tpack.input_source import ZMQInput as ZMQInput
from tpack.input_source import remap_input_source as remap_input_source
from tpack.keras import KerasModel as KerasModel
from tpack.keras import fit as fit
from tpack.legacy.as_horovod import install_as_horovod as install_as_horovod
from tpack.legacy.as_tensorpack import install_as_tensorpack as install_as_tensorpack
from tpack.models import AvgPooling as AvgPooling
from tpack.models import BatchNorm as BatchNorm
from tpack.models import BatchRenorm as BatchRenorm
from tpack.models import BNReLU as BNReLU
from tpack.models import ConcatWith as ConcatWith
from tpack.models import Conv2D as Conv2D
from tpack.models import Conv2DTranspose as Conv2DTranspose
from tpack.models import Deconv2D as Deconv2D
from tpack.models import Dropout as Dropout
from tpack.models import FixedUnPooling as FixedUnPooling
from tpack.models import FullyConnected as FullyConnected
from tpack.models import GlobalAvgPooling as GlobalAvgPooling
from tpack.models import GroupNorm as GroupNorm
from tpack.models import InstanceNorm as InstanceNorm
from tpack.models import LayerNorm as LayerNorm
from tpack.models import LinearWrap as LinearWrap
from tpack.models import Maxout as Maxout
from tpack.models import MaxPooling as MaxPooling
from tpack.models import PReLU as PReLU
from tpack.models import VariableHolder as VariableHolder
from tpack.models import add_keras_losses as add_keras_losses
from tpack.models import disable_layer_logging as disable_layer_logging
from tpack.models import l1_regularizer as l1_regularizer
from tpack.models import l2_regularizer as l2_regularizer
from tpack.models import layer_register as layer_register
from tpack.models import regularize_cost as regularize_cost
from tpack.models import regularize_cost_from_collection as regularize_cost_from_collection
from tpack.models import rename_tflayer_get_variable as rename_tflayer_get_variable
from tpack.multi_worker import Codec as Codec
from tpack.multi_worker import ErrorFeedback as ErrorFeedback
from tpack.multi_worker import Exchange as Exchange
from tpack.multi_worker import Int8 as Int8
from tpack.multi_worker import Memory as Memory
from tpack.multi_worker import MemorySaver as MemorySaver
from tpack.multi_worker import MomentumCorrection as MomentumCorrection
from tpack.multi_worker import MomentumFeedback as MomentumFeedback
from tpack.multi_worker import OneBit as OneBit
from tpack.multi_worker import PowerSGD as PowerSGD
from tpack.multi_worker import TopK as TopK
from tpack.multi_worker import UnevenData as UnevenData
from tpack.multi_worker import make_exchange as make_exchange
from tpack.multi_worker import sharded_embedding as sharded_embedding
from tpack.optimizers import BIASES_AND_NORMS as BIASES_AND_NORMS
from tpack.optimizers import LAMB as LAMB
from tpack.optimizers import LARS as LARS
from tpack.optimizers import SAM as SAM
from tpack.optimizers import Adafactor as Adafactor
from tpack.optimizers import AdamW as AdamW
from tpack.optimizers import Lion as Lion
from tpack.optimizers import Lookahead as Lookahead
from tpack.optimizers import Muon as Muon
from tpack.optimizers import OneBitAdam as OneBitAdam
from tpack.optimizers import OptimizerMonitor as OptimizerMonitor
from tpack.optimizers import Recompute as Recompute
from tpack.optimizers import SpikeGuard as SpikeGuard
from tpack.optimizers import Unfreeze as Unfreeze
from tpack.predict import DataParallelOfflinePredictor as DataParallelOfflinePredictor
from tpack.predict import DatasetPredictorBase as DatasetPredictorBase
from tpack.predict import FeedfreePredictor as FeedfreePredictor
from tpack.predict import MultiProcessDatasetPredictor as MultiProcessDatasetPredictor
from tpack.predict import MultiThreadAsyncPredictor as MultiThreadAsyncPredictor
from tpack.predict import MultiTowerOfflinePredictor as MultiTowerOfflinePredictor
from tpack.predict import OfflinePredictor as OfflinePredictor
from tpack.predict import OnlinePredictor as OnlinePredictor
from tpack.predict import PredictConfig as PredictConfig
from tpack.predict import PredictorBase as PredictorBase
from tpack.predict import SimpleDatasetPredictor as SimpleDatasetPredictor
from tpack.tfutils import ChainInit as ChainInit
from tpack.tfutils import DictRestore as DictRestore
from tpack.tfutils import JustCurrentSession as JustCurrentSession
from tpack.tfutils import SaverRestore as SaverRestore
from tpack.tfutils import SaverRestoreRelaxed as SaverRestoreRelaxed
from tpack.tfutils import SessionInit as SessionInit
from tpack.tfutils import SmartInit as SmartInit
from tpack.tfutils import argscope as argscope
from tpack.tfutils import collect_env_info as collect_env_info
from tpack.tfutils import enable_argscope_for_function as enable_argscope_for_function
from tpack.tfutils import enable_argscope_for_module as enable_argscope_for_module
from tpack.tfutils import get_arg_scope as get_arg_scope
from tpack.tfutils import get_default_sess_config as get_default_sess_config
from tpack.tfutils import get_global_step_value as get_global_step_value
from tpack.tfutils import get_global_step_var as get_global_step_var
from tpack.tfutils import get_model_loader as get_model_loader
from tpack.tfutils import gradproc as gradproc
from tpack.tfutils import optimizer as optimizer
from tpack.tfutils import sesscreate as sesscreate
from tpack.tfutils import sessinit as sessinit
from tpack.tfutils import summary as summary
from tpack.tfutils import varreplace as varreplace
from tpack.tower import TowerContext as TowerContext
from tpack.tower import get_current_tower_context as get_current_tower_context
from tpack.train import DEFAULT_CALLBACKS as DEFAULT_CALLBACKS
from tpack.train import DEFAULT_MONITORS as DEFAULT_MONITORS
from tpack.train import AsyncMultiGPUTrainer as AsyncMultiGPUTrainer
from tpack.train import AutoResumeTrainConfig as AutoResumeTrainConfig
from tpack.train import BuilderTrainer as BuilderTrainer
from tpack.train import DistributedTrainerParameterServer as DistributedTrainerParameterServer
from tpack.train import DistributedTrainerReplicated as DistributedTrainerReplicated
from tpack.train import MultiWorkerStrategyTrainer as MultiWorkerStrategyTrainer
from tpack.train import MultiWorkerTrainerReplicated as MultiWorkerTrainerReplicated
from tpack.train import NoOpTrainer as NoOpTrainer
from tpack.train import SimpleTrainer as SimpleTrainer
from tpack.train import SingleCostTrainer as SingleCostTrainer
from tpack.train import StopTraining as StopTraining
from tpack.train import StrategyBuilder as StrategyBuilder
from tpack.train import StrategyTrainer as StrategyTrainer
from tpack.train import SyncMultiGPUTrainer as SyncMultiGPUTrainer
from tpack.train import SyncMultiGPUTrainerHierarchical as SyncMultiGPUTrainerHierarchical
from tpack.train import SyncMultiGPUTrainerParameterServer as SyncMultiGPUTrainerParameterServer
from tpack.train import SyncMultiGPUTrainerReplicated as SyncMultiGPUTrainerReplicated
from tpack.train import TowerTrainer as TowerTrainer
from tpack.train import TrainConfig as TrainConfig
from tpack.train import Trainer as Trainer
from tpack.train import TrainLoop as TrainLoop
from tpack.train import WaitLimits as WaitLimits
from tpack.train import launch_train_with_config as launch_train_with_config
from tpack.tuning import LargestBatch as LargestBatch
from tpack.tuning import LearningRateRange as LearningRateRange
from tpack.tuning import ModelFlops as ModelFlops
from tpack.tuning import find_batch_size as find_batch_size
from tpack.tuning import find_learning_rate as find_learning_rate
from tpack.utils import change_env as change_env
from tpack.utils import execute_only_once as execute_only_once
from tpack.utils import fix_rng_seed as fix_rng_seed
from tpack.utils import get_rng as get_rng
from tpack.utils import get_tqdm as get_tqdm
from tpack.utils import humanize_time_delta as humanize_time_delta
from tpack.utils import logger as logger
from tpack.version import __version__ as __version__

# tensorpack's older names.
BilinearUpSample: Any
BytePSTrainer: Any
CaffeLMDB: Any
CometMLMonitor: Any
EnqueueThread: Any
FeedfreeInferenceRunner: Any
HorovodTrainer: Any
ImageSample: Any
InjectShell: Any
InputDesc: Any
IterSpeedCounter: Any
LMDBDataPoint: Any
LeakyReLU: Any
MultiProcessPrefetchData: Any
MultiThreadPrefetchData: Any
NewSession: Any
ParamRestore: Any
PhotometricAugmentor: Any
PrefetchData: Any
PrefetchDataZMQ: Any
QueueInputTrainer: Any
SimpleFeedfreeTrainer: Any
SoftMax: Any
StagingInputWrapper: Any
StatPrinter: Any
StaticDynamicAxis: Any
StaticDynamicShape: Any
TFLocalCLIDebugHook: Any
TFSummaryWriter: Any
ThreadedMapData: Any
TrainingMonitor: Any
TransformAugmentorBase: Any
Triggerable: Any
TryResumeTraining: Any
center_loss: Any
class_balanced_cross_entropy: Any
contrastive_loss: Any
convert_to_tflayer_args: Any
cosine_loss: Any
create_dummy_class: Any
create_dummy_func: Any
dftools: Any
dump_chkpt_vars: Any
dump_dataflow_to_lmdb: Any
dump_dataflow_to_process_queue: Any
dump_dataflow_to_tfrecord: Any
get_all_checkpoints: Any
get_caffe_pb: Any
get_global_step: Any
get_op_tensor_name: Any
get_tf_version: Any
get_tf_version_number: Any
get_tqdm_kwargs: Any
huber_loss: Any
libinfo: Any
load_caffe: Any
parse_args: Any
rename_get_variable: Any
serve_data: Any
shapeless_placeholder: Any
siamese_cosine_loss: Any
soft_triplet_loss: Any
symbolic_functions: Any
triplet_loss: Any

# What a star gives.
__all__ = [
    "Adafactor",
    "AdamW",
    "AdaptedData",
    "AsyncMultiGPUBuilder",
    "AsyncMultiGPUTrainer",
    "AugmentImageComponent",
    "AugmentImageComponents",
    "AugmentImageCoordinates",
    "AutoResumeTrainConfig",
    "AvgPooling",
    "BIASES_AND_NORMS",
    "BNReLU",
    "BatchData",
    "BatchDataByShape",
    "BatchNorm",
    "BatchQueueInput",
    "BatchRenorm",
    "BinaryClassificationStats",
    "BuildResult",
    "BuilderTrainer",
    "BytePSTrainer",
    "CSVWriter",
    "CacheData",
    "CaffeLMDB",
    "Callback",
    "CallbackFactory",
    "CallbackToHook",
    "Callbacks",
    "ChainInit",
    "CheckNumerics",
    "ClassificationError",
    "Codec",
    "CollectiveAllReduceStrategy",
    "CometMLMonitor",
    "CometMonitor",
    "ConcatData",
    "ConcatWith",
    "Conv2D",
    "Conv2DTranspose",
    "CurveKeys",
    "CutMix",
    "DEFAULT_CALLBACKS",
    "DEFAULT_MONITORS",
    "DataFlow",
    "DataFlowTerminated",
    "DataFromArrays",
    "DataFromGenerator",
    "DataFromIterable",
    "DataFromList",
    "DataFromQueue",
    "DataParallelBuilder",
    "DataParallelInferenceRunner",
    "DataParallelOfflinePredictor",
    "DatasetPredictorBase",
    "Deconv2D",
    "DictRestore",
    "DistributedMovingAverage",
    "DistributedOptimizer",
    "DistributedTrainerParameterServer",
    "DistributedTrainerReplicated",
    "DistributionStrategy",
    "Dropout",
    "DummyConstantInput",
    "DumpParamAsImage",
    "DumpTensor",
    "DumpTensorAsImage",
    "DumpTensors",
    "EMA",
    "EarlyStopping",
    "EnableCallbackIf",
    "ErrorFeedback",
    "EstimatedTimeLeft",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "Exchange",
    "FakeData",
    "FeedInput",
    "FeedfreeInferenceRunner",
    "FeedfreeInput",
    "FeedfreePredictor",
    "FixedSizeData",
    "FixedUnPooling",
    "FlatMapData",
    "FullyConnected",
    "GPUMemoryTracker",
    "GPUUtilizationTracker",
    "GlobalAvgPooling",
    "GradientNoiseScale",
    "GraphBuilder",
    "GraphProfiler",
    "GraphVarParam",
    "GroupNorm",
    "HDF5Data",
    "HDF5Serializer",
    "HookToCallback",
    "HorovodTrainer",
    "HostMemoryTracker",
    "HumanHyperParamSetter",
    "HyperParam",
    "HyperParamSetter",
    "HyperParamSetterWithFunc",
    "ImageFromFile",
    "IndexedDataFlow",
    "InferenceRunner",
    "InferenceRunnerBase",
    "Inferencer",
    "InjectShell",
    "InputDesc",
    "InputSource",
    "InstanceNorm",
    "Int8",
    "JSONWriter",
    "JoinData",
    "JustCurrentSession",
    "KerasModel",
    "LAMB",
    "LARS",
    "LMDBData",
    "LMDBDataDecoder",
    "LMDBDataPoint",
    "LMDBSerializer",
    "LargestBatch",
    "LayerNorm",
    "LeakyReLU",
    "LearningRateRange",
    "LeastLoadedDeviceSetter",
    "LinearWrap",
    "Lion",
    "LocallyShuffleData",
    "Lookahead",
    "MLflowMonitor",
    "MapData",
    "MapDataComponent",
    "MaxPooling",
    "MaxSaver",
    "MaxTime",
    "Maxout",
    "Memory",
    "MemorySaver",
    "MergeAllSummaries",
    "MergeScalars",
    "MinSaver",
    "MirroredStrategy",
    "MixUp",
    "ModeKeys",
    "ModelDesc",
    "ModelDescBase",
    "ModelFlops",
    "ModelSaver",
    "MomentumCorrection",
    "MomentumFeedback",
    "MonitorBase",
    "Monitors",
    "MovingAverageSummary",
    "MultiProcessDatasetPredictor",
    "MultiProcessMapAndBatchData",
    "MultiProcessMapAndBatchDataZMQ",
    "MultiProcessMapData",
    "MultiProcessMapDataZMQ",
    "MultiProcessPrefetchData",
    "MultiProcessRunner",
    "MultiProcessRunnerZMQ",
    "MultiThreadAsyncPredictor",
    "MultiThreadMapData",
    "MultiThreadPrefetchData",
    "MultiThreadRunner",
    "MultiTowerOfflinePredictor",
    "MultiWorkerStrategyTrainer",
    "MultiWorkerTrainerReplicated",
    "Muon",
    "NewSession",
    "NoOpTrainer",
    "NumpySerializer",
    "ObjAttrParam",
    "OfflinePredictor",
    "OneBit",
    "OneBitAdam",
    "OneDeviceStrategy",
    "OnlinePredictor",
    "OptimizerMonitor",
    "PReLU",
    "ParamRestore",
    "ParameterServerStrategy",
    "PeakMemoryTracker",
    "PeriodicCallback",
    "PeriodicTrigger",
    "PlaceholderInput",
    "PowerSGD",
    "PredictConfig",
    "PredictorBase",
    "PrefetchData",
    "PrefetchDataZMQ",
    "PrintData",
    "ProcessTensors",
    "Profile",
    "ProgressBar",
    "ProxyCallback",
    "ProxyDataFlow",
    "QueueInput",
    "QueueInputTrainer",
    "RNGDataFlow",
    "RandomChooseData",
    "RandomMixData",
    "Recompute",
    "RemoteDataZMQ",
    "RemoteOptions",
    "RemoteStats",
    "RepeatedData",
    "RepeatedDataPoint",
    "RunConfig",
    "RunOp",
    "RunUpdateOps",
    "SAM",
    "SVMLightData",
    "SWA",
    "SaverRestore",
    "SaverRestoreRelaxed",
    "ScalarPrinter",
    "ScalarStats",
    "ScaleWithWorkers",
    "ScheduledHyperParamSetter",
    "SelectComponent",
    "SendMonitorData",
    "SendStat",
    "SessionInit",
    "SessionRunTimeout",
    "ShardData",
    "SimpleBuilder",
    "SimpleDatasetPredictor",
    "SimpleMovingAverage",
    "SimpleTrainer",
    "SingleCostTrainer",
    "SlowestWorker",
    "SmartInit",
    "SoftMax",
    "SpikeGuard",
    "StagingInput",
    "StagingInputWrapper",
    "StartProcOrThread",
    "StatMonitorParamSetter",
    "StatPrinter",
    "StatelessError",
    "StopTraining",
    "StrategyBuilder",
    "StrategyTrainer",
    "SyncMultiGPUParameterServerBuilder",
    "SyncMultiGPUReplicatedBuilder",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerHierarchical",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
    "TFDatasetInput",
    "TFEventWriter",
    "TFLocalCLIDebugHook",
    "TFRecordData",
    "TFRecordSerializer",
    "TFSummaryWriter",
    "TarData",
    "TarSerializer",
    "TensorBoardHParams",
    "TensorInput",
    "TensorPrinter",
    "TestDataSpeed",
    "ThreadedMapData",
    "ThroughputTracker",
    "TopK",
    "TowerContext",
    "TowerOptimizer",
    "TowerTrainer",
    "TrainConfig",
    "TrainLoop",
    "TrainSpec",
    "Trainer",
    "TrainingMonitor",
    "TryResumeTraining",
    "UnevenData",
    "Unfreeze",
    "UnknownLengthError",
    "VariableHolder",
    "WaitLimits",
    "WandbMonitor",
    "Watchdog",
    "ZMQInput",
    "add_keras_losses",
    "allreduce_grads",
    "argscope",
    "as_dataflow",
    "callbacks",
    "change_env",
    "collect_env_info",
    "compat",
    "dataflow",
    "dataset",
    "dftools",
    "disable_layer_logging",
    "dump_chkpt_vars",
    "enable_argscope_for_function",
    "enable_argscope_for_module",
    "execute_only_once",
    "find_batch_size",
    "find_learning_rate",
    "fit",
    "fix_rng_seed",
    "get_arg_scope",
    "get_cross_tower_context",
    "get_current_tower_context",
    "get_default_sess_config",
    "get_distribution_strategy",
    "get_global_step_value",
    "get_global_step_var",
    "get_model_loader",
    "get_op_tensor_name",
    "get_rng",
    "get_tf_version_tuple",
    "get_tower_context",
    "get_tqdm",
    "gradproc",
    "graph_builder",
    "has_distribution_strategy",
    "humanize_time_delta",
    "imgaug",
    "input_source",
    "install_as_horovod",
    "install_as_tensorpack",
    "l1_regularizer",
    "l2_regularizer",
    "launch_train_with_config",
    "layer_register",
    "libinfo",
    "logger",
    "make_curve_keys",
    "make_exchange",
    "models",
    "optimizer",
    "predict",
    "regularize_cost",
    "regularize_cost_from_collection",
    "remap_input_source",
    "rename_tflayer_get_variable",
    "replicate_model_fn",
    "send_dataflow_zmq",
    "sesscreate",
    "sessinit",
    "shard_files",
    "sharded_embedding",
    "start_workers_by",
    "summary",
    "symbolic_functions",
    "tfutils",
    "tfv1",
    "tower",
    "train",
    "train_and_evaluate",
    "utils",
    "varreplace",
]
