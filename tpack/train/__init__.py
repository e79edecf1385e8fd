"""Trainers, their configuration and the step loop."""

from tpack.errors import StopTraining
from tpack.graph_builder.model_desc import ModelDesc, ModelDescBase
from tpack.train.config import DEFAULT_CALLBACKS, DEFAULT_MONITORS, TrainConfig
from tpack.train.distributed import DistributedTrainerParameterServer, DistributedTrainerReplicated
from tpack.train.interface import launch_train_with_config
from tpack.train.loop import TrainLoop
from tpack.train.multi_worker import MultiWorkerTrainerReplicated, WaitLimits
from tpack.train.multi_worker_strategy import MultiWorkerStrategyTrainer
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.single_cost import BuilderTrainer, SingleCostTrainer
from tpack.train.tower_trainer import TowerTrainer
from tpack.train.trainer import Trainer
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    NoOpTrainer,
    SimpleTrainer,
    StrategyBuilder,
    StrategyTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerHierarchical,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = [
    "DEFAULT_CALLBACKS",
    "DEFAULT_MONITORS",
    "AsyncMultiGPUTrainer",
    "AutoResumeTrainConfig",
    "BuilderTrainer",
    "DistributedTrainerParameterServer",
    "DistributedTrainerReplicated",
    "ModelDesc",
    "ModelDescBase",
    "MultiWorkerStrategyTrainer",
    "MultiWorkerTrainerReplicated",
    "NoOpTrainer",
    "SimpleTrainer",
    "SingleCostTrainer",
    "StrategyBuilder",
    "StrategyTrainer",
    "StopTraining",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerHierarchical",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
    "TowerTrainer",
    "TrainConfig",
    "TrainLoop",
    "Trainer",
    "WaitLimits",
    "launch_train_with_config",
]
