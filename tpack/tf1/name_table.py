"""Lazy names of the packages of `tpack.tf1`: each is imported from TensorFlow or tpack on first use.

A package writes a table of modules and their names. `MODULES` has the packages and modules that consist of such a table
alone; they need no file.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from tpack.tf1.removed_names import missing_module, missing_name
from tpack.utils.lazy import attach

_TF = "tensorflow.compat.v1"
_ROOT = "tpack.tf1"
_CONTRIB = f"{_ROOT}.contrib."
_STRATEGIES = f"{_ROOT}.contrib.distribute.python"
_PYTHON = (
    "collective_all_reduce_strategy cross_tower_ops mirrored_strategy monitor one_device_strategy "
    "parameter_server_strategy step_fn values"
)

MODULES: dict[str, tuple[str, Mapping[str, str]]] = {
    "compat": ("``tf.compat`` of TensorFlow, in which ``v1`` is `tpack.tf1`.", {_ROOT: "v1="}),
    "app": ("``tf.app`` of ``tensorflow.compat.v1``, with `tpack.tf1.flags`.", {f"{_ROOT}.flags": "flags="}),
    "nn": ("``tf.nn`` of ``tensorflow.compat.v1``, with ``rnn_cell``.", {f"{_ROOT}.nn.rnn_cell": ""}),
    "nn.rnn_cell": ("``tf.nn.rnn_cell``.", {f"{_ROOT}.rnn_cell": "*"}),
    "train": (
        "``tf.train`` of ``tensorflow.compat.v1``, with sessions that read variables after their updates.",
        {
            f"{_ROOT}.sessions": (
                "ChiefSessionCreator MonitoredSession MonitoredTrainingSession SessionManager "
                "SingularMonitoredSession Supervisor WorkerSessionCreator"
            )
        },
    ),
    "estimator.experimental": (
        "``tf.estimator.experimental``: hooks for early stopping and evaluation, and logits as functions.",
        {
            f"{_ROOT}.estimator.hooks": (
                "InMemoryEvaluatorHook make_early_stopping_hook make_stop_at_checkpoint_step_hook stop_if_higher_hook "
                "stop_if_lower_hook stop_if_no_decrease_hook stop_if_no_increase_hook"
            ),
            f"{_ROOT}.estimator.logits": "call_logit_fn dnn_logit_fn_builder linear_logit_fn_builder",
        },
    ),
    "estimator.tpu": (
        "``tf.estimator.tpu`` on CPUs and GPUs.",
        {
            f"{_ROOT}.estimator.tpu_estimator": (
                "InputPipelineConfig RunConfig=TPURunConfig TPUConfig TPUEstimator TPUEstimatorSpec"
            )
        },
    ),
    "contrib.all_reduce.python": (
        "The module of ``tf.contrib.all_reduce``.",
        {f"{_ROOT}.contrib.all_reduce.python.all_reduce": ""},
    ),
    "contrib.all_reduce.python.all_reduce": ("Sums over devices.", {f"{_ROOT}.contrib.all_reduce": "*"}),
    "contrib.cluster_resolver": (
        "``tf.contrib.cluster_resolver``: ``tf.distribute.cluster_resolver`` of today.",
        {
            f"{_TF}.distribute.cluster_resolver": (
                "ClusterResolver GCEClusterResolver KubernetesClusterResolver SimpleClusterResolver "
                "SlurmClusterResolver TFConfigClusterResolver TPUClusterResolver"
            )
        },
    ),
    "contrib.distribute": (
        "``tf.contrib.distribute``: the strategies of `tpack.distribute`, under the names of TensorFlow 1.8 to 1.15.",
        {
            # A tower is called a replica since TensorFlow 1.13.
            "tpack.distribute": (
                "AllReduceCrossTowerOps CollectiveAllReduceStrategy CrossTowerOps DistributeConfig "
                "DistributionStrategy MirroredStrategy Monitor MultiWorkerAllReduce OneDeviceStrategy "
                "ParameterServerStrategy ReductionToOneDeviceCrossTowerOps StandardInputStep StandardSingleLossStep "
                "Step TowerContext UpdateContext get_cross_tower_context get_distribution_strategy "
                "get_loss_reduction get_tower_context has_distribution_strategy require_tower_context "
                "AllReduceCrossDeviceOps=AllReduceCrossTowerOps CrossDeviceOps=CrossTowerOps "
                "ReductionToOneDeviceCrossDeviceOps=ReductionToOneDeviceCrossTowerOps ReplicaContext=TowerContext "
                "get_cross_replica_context=get_cross_tower_context get_replica_context=get_tower_context "
                "get_strategy=get_distribution_strategy has_strategy=has_distribution_strategy "
                "require_replica_context=require_tower_context"
            )
        },
    ),
    "contrib.distribute.python": (
        "The modules of ``tf.contrib.distribute``.",
        {f"{_STRATEGIES}.{name}": "" for name in _PYTHON.split()},
    ),
    "contrib.distribute.python.collective_all_reduce_strategy": (
        "The strategy whose workers sum by collectives.",
        {"tpack.distribute": "CollectiveAllReduceStrategy"},
    ),
    "contrib.distribute.python.cross_tower_ops": (
        "Moves and sums of values between devices.",
        {
            "tpack.distribute": (
                "AllReduceCrossTowerOps CollectiveAllReduce CrossTowerOps MultiWorkerAllReduce "
                "ReductionToOneDeviceCrossTowerOps choose_the_best"
            ),
            "tpack.distribute.cross_tower_ops": "check_destinations get_devices_from validate_destinations",
            "tpack.reduction": "AggregateSmallTensorPacker ConcatAndSplitPacker",
        },
    ),
    "contrib.distribute.python.mirrored_strategy": (
        "The strategy with a copy of the variables for each device.",
        {"tpack.distribute": "MirroredStrategy"},
    ),
    "contrib.distribute.python.monitor": ("The loop over the steps of a strategy.", {"tpack.distribute": "Monitor"}),
    "contrib.distribute.python.one_device_strategy": (
        "The strategy of one device.",
        {"tpack.distribute": "OneDeviceStrategy"},
    ),
    "contrib.distribute.python.parameter_server_strategy": (
        "The strategy with variables on parameter servers.",
        {"tpack.distribute": "ParameterServerStrategy"},
    ),
    "contrib.distribute.python.step_fn": (
        "One step of a strategy.",
        {"tpack.distribute": "StandardInputStep StandardSingleLossStep Step"},
    ),
    "contrib.distribute.python.values": (
        "Values with a part for each device.",
        {
            "tpack.distribute": (
                "DistributedValues MapOutput Mirrored MirroredVariable MultiStepContext PerDevice PerDeviceDataset "
                "TowerLocalVariable regroup select_device select_device_mirrored"
            )
        },
    ),
    "contrib.distributions": (
        "``tf.contrib.distributions``: those that TensorFlow itself has; TensorFlow Probability has all.",
        {
            f"{_TF}.distributions": (
                "Bernoulli Beta Categorical Dirichlet DirichletMultinomial Distribution Exponential "
                "FULLY_REPARAMETERIZED Gamma Laplace Multinomial NOT_REPARAMETERIZED Normal RegisterKL "
                "ReparameterizationType StudentT Uniform kl_divergence"
            )
        },
    ),
    "contrib.estimator": (
        "``tf.contrib.estimator``: heads as functions, and what it added to Estimators.",
        {
            "tpack.estimator": "TowerOptimizer replicate_model_fn",
            f"{_ROOT}.estimator": "BaselineEstimator DNNEstimator DNNLinearCombinedEstimator LinearEstimator",
            f"{_ROOT}.estimator.experimental": "*",
            f"{_ROOT}.estimator.export": "StepsExporter",
            f"{_ROOT}.estimator.extenders": "add_metrics clip_gradients_by_norm forward_features",
            f"{_ROOT}.estimator.heads.multi": (
                "binary_classification_head logistic_regression_head multi_class_head multi_head multi_label_head "
                "poisson_regression_head regression_head"
            ),
            f"{_ROOT}.estimator.hooks": "read_eval_metrics",
        },
    ),
    "contrib.feature_column": (
        "``tf.contrib.feature_column``: the columns of sequences of ``tf.feature_column``.",
        {
            f"{_TF}.feature_column": (
                "sequence_categorical_column_with_hash_bucket sequence_categorical_column_with_identity "
                "sequence_categorical_column_with_vocabulary_file sequence_categorical_column_with_vocabulary_list "
                "sequence_numeric_column"
            )
        },
    ),
    "contrib.signal": (
        "``tf.contrib.signal``: ``tf.signal`` of today.",
        {
            f"{_TF}.signal": (
                "frame hamming_window hann_window inverse_stft inverse_stft_window_fn linear_to_mel_weight_matrix "
                "mfccs_from_log_mel_spectrograms overlap_and_add stft"
            )
        },
    ),
    "contrib.stateless": (
        "``tf.contrib.stateless``: random numbers that follow from a seed alone.",
        {
            f"{_TF}.random": (
                "stateless_multinomial stateless_random_normal=stateless_normal "
                "stateless_random_uniform=stateless_uniform stateless_truncated_normal"
            )
        },
    ),
    "contrib.tpu": (
        "``tf.contrib.tpu`` on CPUs and GPUs: its Estimator with ``use_tpu=False``, and other names of such code.",
        {f"{_ROOT}.estimator.tpu": "*", f"{_ROOT}.estimator.tpu_estimator": "CrossShardOptimizer"},
    ),
    "contrib.util": (
        "``tf.contrib.util``: values of tensors known while the graph is built, and their protos.",
        {_TF: "constant_value=get_static_value make_ndarray make_tensor_proto"},
    ),
}
"""{name below `tpack.tf1`: (docstring, {module: names})} of the modules without a file."""

_BEHIND = {"app": f"{_TF}.app", "compat": f"{_TF}.compat", "nn": f"{_TF}.nn", "train": f"{_TF}.train"}


def look_up(
    package: str, table: Mapping[str, str], *, own: Sequence[str] = (), behind: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` of a package from the table of its names.

    Args:
        package: the package's ``__name__``.
        table: {module: names with blanks between}, as `tpack.utils.lazy.attach` takes it; ``"*"`` stands for all public
            names of the module.
        own: public names defined in the package itself.
        behind: a module of TensorFlow that has all other names.

    Returns:
        The three. ``__getattr__`` raises a `MissingNameError` for a name that is nowhere.
    """

    def other(name: str) -> Any:
        """Return a name of TensorFlow or a module of the package, or raise what to use in its place."""
        if behind is not None and hasattr(importlib.import_module(behind), name):
            return getattr(importlib.import_module(behind), name)
        # Names with underscores, asked for by inspect, pickle and others, are never modules.
        if not name.startswith("_") and _is_module(package, name):
            return importlib.import_module(f"{package}.{name}")
        raise missing_name(package, name, list_names())

    def list_names() -> list[str]:
        """List the names here and behind."""
        return sorted({*list_own(), *public, *(dir(importlib.import_module(behind)) if behind else ())})

    names = {module: tuple(_expanded(module, text)) for module, text in table.items()}
    load, list_own, loaded = attach(package, names, other=other)
    public = sorted({*loaded, *own})
    return load, list_names, public


def _is_module(package: str, name: str) -> bool:
    """Tell whether there is a module of this name, without asking `ContribFinder`, which raises."""
    whole, path = f"{package}.{name}", vars(sys.modules[package]).get("__path__", [])
    return whole in sys.modules or importlib.machinery.PathFinder.find_spec(whole, list(path)) is not None


def _expanded(module: str, names: str) -> list[str]:
    return [
        name for text in names.split() for name in (importlib.import_module(module).__all__ if text == "*" else [text])
    ]


class TableModule(ModuleType):
    """A module of `MODULES`.

    Args:
        path: its name below `tpack.tf1`.
    """

    def __init__(self, path: str) -> None:
        doc, self._table = MODULES[path]
        super().__init__(f"{_ROOT}.{path}", doc)
        self.__spec__ = importlib.machinery.ModuleSpec(self.__name__, None, is_package=True)
        self.__path__: list[str] = []
        self._behind = _BEHIND.get(path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if "_load" not in vars(self):
            self._load, self._list_names, self.__all__ = look_up(self.__name__, self._table, behind=self._behind)
            return getattr(self, name)
        return self._load(name)

    def __dir__(self) -> list[str]:
        return [*self._list_names(), *super().__dir__()]


class ContribFinder(importlib.abc.MetaPathFinder):
    """Finder of the modules below ``tpack.tf1.contrib``, which refuses those that are not there with what to use.

    Each module found counts as a package, so that the import of what TensorFlow 1 had below it is refused so too.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how to load a module; None for those elsewhere.

        Raises:
            ModuleNotFoundError: There is none of that name; with what to use.
        """
        if not fullname.startswith(_CONTRIB):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None:
            raise missing_module(fullname)
        if spec.submodule_search_locations is None:
            spec.submodule_search_locations = []
        return spec


def add_modules() -> None:
    """Make the modules without a file importable, and refuse those below ``contrib`` that are not there."""
    if not any(isinstance(finder, ContribFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, ContribFinder())
    for path in MODULES:
        sys.modules.setdefault(f"{_ROOT}.{path}", TableModule(path))
