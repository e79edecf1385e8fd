"""Session creators: objects with one method ``create_session()``.

They are the place to change what kind of session a trainer uses: another configuration, a cluster's target, a debugging
wrapper around the session.

Before the first run, TensorFlow rewrites the graph by the passes of Grappler. They take longer than all else on large
graphs, once for each set of fetches, and most change nothing that shows in a step. A session creator of tpack asks for
those that are known to, by what is in the graph; docs/benchmarks.md has the figures.
"""

from collections.abc import Callable
from typing import Any, Protocol

import tensorflow.compat.v1 as tf

from tpack.compat import is_marked_for_compilation, is_mixed_precision_rewrite_enabled
from tpack.errors import ConfigError, WrongTypeError
from tpack.graph_copy import op_kinds
from tpack.tower.devices import check_session_devices, list_gpus, local_devices, provide_cpu_devices
from tpack.utils.logger import log_once
from tpack.utils.validation import (
    check_arguments,
    check_choice,
    check_function,
    check_number,
    check_text,
    owner_name,
    shown,
)

GRAPPLER = ("auto", "on", "off")
_REWRITTEN = op_kinds.PRODUCTS | {"Pow"}


class SessionCreator(Protocol):
    """What makes a session: one of those below, TensorFlow's, or an object of the user's own."""

    def create_session(self) -> tf.Session:
        """Return a session on the current default graph."""


def check_session_creator(owner: object, session_creator: Any) -> Any:
    """Return an argument that makes sessions.

    Args:
        owner: whose argument it is.
        session_creator: its value.

    Raises:
        WrongTypeError: It has no function ``create_session``.
    """
    create = getattr(session_creator, "create_session", None)
    if isinstance(session_creator, type) or not callable(create):
        raise WrongTypeError(
            f"{owner_name(owner)} got session_creator={shown(session_creator)}: expected an object with "
            "create_session, "
            "such as NewSessionCreator()"
        )
    return session_creator


@check_arguments
class NewSessionCreator(tf.train.SessionCreator):
    """Create a session on the current default graph that has every device the graph asks for.

    The configuration is copied when the session is created. Its number of CPU devices is raised to what the graph's
    operations need, and never lowered. Where there are several, they share the cores: see
    `tpack.tower.devices.provide_cpu_devices`.

    Args:
        target: the address of a TensorFlow server; empty for a session in this process.
        config: a ConfigProto; None means ``get_default_sess_config()``.
        grappler: how TensorFlow rewrites the graph before it runs it. ``"auto"`` asks for the passes that pay for what
            is in the graph, see `choose_rewrites`; ``"on"`` for all of TensorFlow's default; ``"off"`` for none. Where
            ``config`` has ``graph_options.rewrite_options`` of its own, these are kept.

    Raises:
        ConfigError: ``config`` is not a ConfigProto, ``grappler`` is none of the three, or both say how to rewrite.
    """

    def __init__(self, target: str = "", config: tf.ConfigProto | None = None, *, grappler: str = "auto") -> None:
        self.target = target if target == "" else check_text(self, "target", target)
        self.config = get_default_sess_config() if config is None else config
        self.grappler = check_choice(self, "grappler", grappler, GRAPPLER)
        if grappler != "auto" and _has_rewrite_options(self.config):
            raise ConfigError(
                f"NewSessionCreator got grappler={grappler!r} and a config with graph_options.rewrite_options: say it "
                "in one of them"
            )

    def create_session(self) -> tf.Session:
        """Return the new session.

        Raises:
            DeviceError: The graph asks for a device that the session lacks. No session stays open.
        """
        graph = tf.get_default_graph()
        config = tf.ConfigProto()
        config.CopyFrom(self.config)
        provide_cpu_devices(config, graph)
        if self.grappler == "off":
            config.graph_options.rewrite_options.disable_meta_optimizer = True
        elif self.grappler == "auto":
            choose_rewrites(config, graph)
        _tell_if_sums_may_be_taken_apart(config, graph)
        return self._open_session(graph, config)

    def _open_session(self, graph: tf.Graph, config: tf.ConfigProto) -> tf.Session:
        """Return a session that has the devices of the graph."""
        session = tf.Session(self.target, graph=graph, config=config)
        try:
            check_session_devices(session, graph)
        except BaseException:
            session.close()
            raise
        return session


@check_arguments
def choose_rewrites(config: tf.ConfigProto, graph: tf.Graph) -> None:
    """Let a session make the rewrites of a graph that pay, and tell in the log which, and why.

    They pay on graphs with operations that there are faster ones for. Powers become products, and transposed matrices
    are multiplied without being transposed first (``arithmetic``). Convolutions and matrix products take in the bias,
    the normalisation and the activation after them, which they can do only where no gradient needs what is between
    (``remap``). On GPUs, convolutions get the layout of data that is fastest there (``layout``). Each is made once.
    Operations that XLA compiles do not count.

    Args:
        config: a ConfigProto, which is changed; left as it is if it has ``graph_options.rewrite_options``, or where
            ``enable_mixed_precision_graph_rewrite`` of TensorFlow was called, since that is one of the rewrites.
        graph: the complete graph.
    """
    if _has_rewrite_options(config) or is_mixed_precision_rewrite_enabled():
        return
    reasons = _rewrites_that_pay(graph)
    if reasons:
        rewrites = config.graph_options.rewrite_options
        rewrites.optimizers.extend(["pruning", *reasons])
        rewrites.meta_optimizer_iterations = rewrites.ONE
        told = "; ".join(f"{name} since {reason}" for name, reason in reasons.items())
        log_once(f"TensorFlow rewrites the graph by some of its passes before it runs: {told}.")
    else:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        log_once(
            "TensorFlow runs the graph as it is, without rewriting it first: there is nothing that this would speed up."
        )


def _tell_if_sums_may_be_taken_apart(config: tf.ConfigProto, graph: tf.Graph) -> None:
    """Say in the log that TensorFlow's pass for memory, if it is made, changes in which order tensors are added.

    On a device whose memory it finds short, which a CPU's is beyond 205 MB, it puts each sum together in a variable,
    and each summand is added as soon as it is there.
    """
    rewrites = config.graph_options.rewrite_options
    is_made = not rewrites.disable_meta_optimizer and (not rewrites.optimizers or "memory" in rewrites.optimizers)
    takes_apart = (rewrites.DEFAULT_MEM_OPT, rewrites.SCHEDULING_HEURISTICS, rewrites.HEURISTICS)
    if not is_made or rewrites.memory_optimization not in takes_apart:
        return
    if any(op.type == "AddN" and len(op.inputs) > 2 for op in graph.get_operations()):
        log_once(
            "Where TensorFlow finds memory short, it may add three and more tensors in any order, so that runs do not "
            "repeat bit by bit: session_config asks for its rewrites, and rewrite_options.memory_optimization is not "
            "NO_MEM_OPT."
        )


def _has_rewrite_options(config: tf.ConfigProto) -> bool:
    return bool(config.graph_options.HasField("rewrite_options"))


def _rewrites_that_pay(graph: tf.Graph) -> dict[str, str]:
    """Return the passes by their names in TensorFlow, in the order in which they are made, with what they are for."""
    # XLA has rewrites of its own, and does not compile what TensorFlow put in the place of a marked operation.
    operations = [op for op in graph.get_operations() if op.type not in _REWRITTEN or not is_marked_for_compilation(op)]
    types = {op.type for op in operations}
    has_products = not types.isdisjoint(op_kinds.PRODUCTS)
    reasons = {}
    if "Pow" in types:
        reasons["arithmetic"] = "there are powers"
    elif any(_takes_transposed(op) for op in operations):
        reasons["arithmetic"] = "there are transposed matrices that are multiplied"
    if has_products and list_gpus() and any(kind == "GPU" for kind, _ in local_devices(graph)):
        reasons["layout"] = "there are products on GPUs"
        reasons["remap"] = "they can take in what follows them"
    elif has_products and not any(op_kinds.OPTIMIZER_UPDATE.match(kind) for kind in types):
        reasons["remap"] = "nothing is trained, and products can take in what follows them"
    return reasons


def _takes_transposed(operation: tf.Operation) -> bool:
    if operation.type not in op_kinds.MATRIX_PRODUCTS:
        return False
    return any(tensor.op.type == "Transpose" for tensor in operation.inputs)


@check_arguments
class ReuseSessionCreator(tf.train.SessionCreator):
    """Give out a session that exists already.

    Args:
        sess: the session.

    Raises:
        WrongTypeError: It is none.
    """

    def __init__(self, sess: tf.Session) -> None:
        # A wrapper of a session, such as that of a debugger, need not be one.
        check_function(self, "sess", getattr(sess, "run", sess), "a session")
        self.sess = sess

    def create_session(self) -> tf.Session:
        """Return the session that was given."""
        return self.sess


def makes_new_sessions(session_creator: SessionCreator) -> bool:
    """Tell whether no variable has a value in the sessions that a creator makes.

    Sessions on servers share variables with others there, and a user's own creator may have done anything.
    """
    if not isinstance(session_creator, NewSessionCreator) or session_creator.target:
        return False
    return type(session_creator).create_session is NewSessionCreator.create_session


@check_arguments
class SessionCreatorAdapter(tf.train.SessionCreator):
    """Pass the session of another creator through a function.

    Args:
        session_creator: any session creator.
        func: ``func(session) -> session``, for example one that wraps it.

    Raises:
        WrongTypeError: One of them is something else.

    Example:
        SessionCreatorAdapter(NewSessionCreator(), lambda sess: LocalCLIDebugWrapperSession(sess))
    """

    def __init__(self, session_creator: SessionCreator, func: Callable[[tf.Session], tf.Session]) -> None:
        self.session_creator = check_session_creator(self, session_creator)
        self.func = func

    def create_session(self) -> tf.Session:
        """Return ``func`` of the other creator's session."""
        return self.func(self.session_creator.create_session())


@check_arguments
def get_default_sess_config(mem_fraction: float = 0.99) -> tf.ConfigProto:
    """Return a new ConfigProto: soft placement, and GPU memory that grows up to a fraction of what there is.

    Soft placement is needed for operations without a GPU kernel. It never moves a tower, since the session creator
    checks that every device that the graph asks for exists.

    Args:
        mem_fraction: the share of each GPU's memory that this process may use.

    Raises:
        ConfigError: ``mem_fraction`` is not in (0, 1].
    """
    check_number("get_default_sess_config", "mem_fraction", mem_fraction, 0, 1, is_low_allowed=False)
    config = tf.ConfigProto(allow_soft_placement=True)
    config.gpu_options.per_process_gpu_memory_fraction = mem_fraction
    config.gpu_options.allow_growth = True
    return config


class ServerSessionCreator(tf.train.SessionCreator):
    """Create sessions on a server; the chief initialises the variables, and the others wait until it has.

    Args:
        server: a ``tf.train.Server``. The chief is task 0 of its job, unless that is called ``"ps"``.

    Raises:
        WrongTypeError: ``server`` is something else.
    """

    def __init__(self, server: tf.train.Server) -> None:
        if not hasattr(server, "server_def"):
            raise WrongTypeError(f"{type(self).__name__} got server={shown(server)}: expected a tf.train.Server")
        self._server = server

    @property
    def is_chief(self) -> bool:
        """Whether this task initialises the variables."""
        definition = self._server.server_def
        return bool(definition.task_index == 0 and definition.job_name != "ps")

    def create_session(self) -> tf.Session:
        """Return a session on the current default graph, all of whose variables have values."""
        manager = tf.train.SessionManager(
            local_init_op=tf.local_variables_initializer(),
            ready_op=tf.report_uninitialized_variables(),
            ready_for_local_init_op=tf.report_uninitialized_variables(tf.global_variables()),
            graph=tf.get_default_graph(),
            recovery_wait_secs=1,
        )
        if self.is_chief:
            return manager.prepare_session(self._server.target, init_op=tf.global_variables_initializer())
        return manager.wait_for_session(self._server.target)


def get_distributed_session_creator(server: tf.train.Server) -> ServerSessionCreator:
    """Return a session creator for one task of a cluster.

    Args:
        server: the task's ``tf.train.Server``.
    """
    return ServerSessionCreator(server)
