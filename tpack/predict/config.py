"""The configuration of a predictor: model, inputs, outputs and weights."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.graph_builder.compiled import Compile, TowerCompiler, as_compile_policy
from tpack.graph_builder.model_desc import ModelDescBase
from tpack.graph_builder.precision import PrecisionPolicy, as_precision_policy
from tpack.tfutils.sesscreate import NewSessionCreator, SessionCreator, check_session_creator
from tpack.tfutils.sessinit import JustCurrentSession, SessionInit, check_session_init
from tpack.tower.per_graph import new_graph
from tpack.tower.tower_func import TowerFunc
from tpack.utils.validation import check_arguments, check_instance, check_instances


@check_arguments
class PredictConfig:
    """Description of any number of predictors, each in a graph of its own.

    The model is a `ModelDesc`, a `TowerFunc`, or a plain function with its ``input_signature``.

    Args:
        model: a `ModelDescBase`.
        tower_func: a `TowerFunc`, or a function of input tensors.
        input_signature: the inputs of a plain function: a ``tf.TensorSpec`` each.
        input_names: names of inputs, or of any other tensors to feed; None means all inputs of the signature.
        output_names: names of the tensors to fetch.
        session_creator: creates the session; None means a `NewSessionCreator`.
        session_init: sets the variables, such as ``SmartInit(path)``; None leaves them to their initialisers, with a
            warning.
        return_input: return ``(data_point, outputs)`` in place of the outputs alone.
        create_graph: build in a new graph for each predictor; otherwise in the default graph at that time.
        precision: the dtype of computation, as for `SingleCostTrainer`; the weights stay in float32.
        compile: ``"xla"`` or a `CompilePolicy` compiles what the outputs need; None does not.

    Attributes:
        input_signature: a list of ``tf.TensorSpec``.
        compile_policy: a `CompilePolicy` or None.
        tower_func: a `TowerFunc`, of which predictors build copies.

    Raises:
        ConfigError: The model is not given in one of these ways, there are no output names, or an argument is of the
            wrong type.

    Example:
        predict = OfflinePredictor(PredictConfig(
            model=MyModel(), session_init=SmartInit("train_log/model-100"),
            input_names=["image"], output_names=["logits"]))
    """

    def __init__(
        self,
        model: ModelDescBase | None = None,
        tower_func: TowerFunc | Callable[..., Any] | None = None,
        input_signature: Sequence[tf.TensorSpec] | None = None,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        session_creator: SessionCreator | None = None,
        session_init: SessionInit | None = None,
        return_input: bool = False,
        create_graph: bool = True,
        *,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
    ) -> None:
        tower, policy = _as_tower_func(model, tower_func, input_signature), as_precision_policy(precision)
        if policy.is_mixed:
            tower = TowerFunc(policy.wrap(tower.function, tower.input_names), tower.input_signature)
        self.tower_func = tower
        self.input_signature = self.tower_func.input_signature
        self.input_names = self.tower_func.input_names if input_names is None else _check_names("input", input_names)
        self.output_names = _check_names("output", output_names)
        check_session_init(self, session_init)
        self.session_creator = (
            NewSessionCreator() if session_creator is None else check_session_creator(self, session_creator)
        )
        self.session_init = JustCurrentSession() if session_init is None else session_init
        self.return_input = return_input
        self.create_graph = create_graph
        self.compile_policy = as_compile_policy(compile)
        if self.compile_policy is not None and self.compile_policy.mode == "auto":
            raise ConfigError(
                'PredictConfig got compile="auto", which compares steps of a training: expected "xla", a CompilePolicy '
                "of it, or None"
            )

    def make_graph(self) -> tf.Graph:
        """Return the graph for a predictor."""
        return new_graph() if self.create_graph else tf.get_default_graph()

    def make_compiler(self) -> TowerCompiler | None:
        """Return the compiler for one predictor; None where nothing is compiled."""
        return None if self.compile_policy is None else TowerCompiler(self.compile_policy)


def _as_tower_func(
    model: ModelDescBase | None,
    tower_func: TowerFunc | Callable[..., Any] | None,
    input_signature: Sequence[tf.TensorSpec] | None,
) -> TowerFunc:
    if model is not None:
        if tower_func is not None or input_signature is not None:
            raise ConfigError("PredictConfig got model and tower_func or input_signature: expected model alone")
        check_instance("PredictConfig", "model", model, ModelDescBase)
        return TowerFunc(model.build_graph, model.get_input_signature())
    if isinstance(tower_func, TowerFunc):
        if input_signature is not None and list(input_signature) != tower_func.input_signature:
            raise ConfigError("PredictConfig got another input_signature than that of the TowerFunc: expected None")
        return tower_func
    if tower_func is None or input_signature is None:
        raise ConfigError(
            "PredictConfig got no model: expected one, a TowerFunc, or a tower_func with its input_signature"
        )
    return TowerFunc(tower_func, input_signature)


def _check_names(kind: str, names: Sequence[str] | None) -> list[str]:
    return check_instances("PredictConfig", f"{kind}_names", names, str, least=1, expected="a list of tensor names")
