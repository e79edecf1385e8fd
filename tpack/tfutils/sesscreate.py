"""Session creators: objects with one method ``create_session()``.

They change the kind of session that a trainer uses: another configuration, a cluster's target, a debugging wrapper.

Before the first run of each set of fetches, TensorFlow rewrites the graph by the passes of Grappler. They take longer
than everything else on large graphs, and most change nothing measurable. A session creator of tpack requests those that
pay for the content of the graph; docs/benchmarks.md has the figures.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Protocol

import tensorflow.compat.v1 as tf

from tpack.compat.operations import is_marked_for_compilation
from tpack.compat.runtime import is_mixed_precision_rewrite_enabled
from tpack.errors import ConfigError, WrongTypeError
from tpack.graph_copy import op_kinds
from tpack.tower.devices import check_session_devices, list_gpus, local_devices, provide_cpu_devices
from tpack.utils.logger import log_once
from tpack.utils.validation import check_arguments, check_choice, check_function, check_number, check_text, mismatch

GRAPPLER = ("auto", "on", "off")
_REWRITTEN = op_kinds.PRODUCTS | {"Pow"}


class SessionCreator(Protocol):
    """Object that makes a session: one of those below, TensorFlow's, or the user's own."""

    def create_session(self) -> tf.Session:
        """Return a session on the current default graph."""


def check_session_creator(owner: object, session_creator: Any) -> Any:
    """Return an argument that makes sessions; raise a WrongTypeError if it has no function ``create_session``."""
    create = getattr(session_creator, "create_session", None)
    if isinstance(session_creator, type) or not callable(create):
        expected = "an object with create_session, such as NewSessionCreator()"
        raise WrongTypeError(mismatch(owner, "session_creator", session_creator, expected))
    return session_creator


@check_arguments
class NewSessionCreator(tf.train.SessionCreator):
    """Create a session on the current default graph that has every device the graph asks for.

    The configuration is copied when the session is created. Its number of CPU devices is raised to the number that the
    graph needs, which share the cores (see `tpack.tower.devices.provide_cpu_devices`), and never lowered.

    Args:
        target: the address of a TensorFlow server; empty for a session in this process.
        config: a ConfigProto; None means ``get_default_sess_config()``.
        grappler: rewrites of the graph before it runs: ``"auto"`` for the passes that pay (see `choose_rewrites`),
            ``"on"`` for TensorFlow's default, ``"off"`` for none. ``graph_options.rewrite_options`` in ``config`` are
            kept.

    Raises:
        ConfigError: ``config`` is not a ConfigProto, ``grappler`` is none of the three, or both set rewrites.
    """

    def __init__(self, target: str = "", config: tf.ConfigProto | None = None, *, grappler: str = "auto") -> None:
        self.target = target if target == "" else check_text(self, "target", target)
        self.config = get_default_sess_config() if config is None else config
        self.grappler = check_choice(self, "grappler", grappler, GRAPPLER)
        if grappler != "auto" and _has_rewrite_options(self.config):
            expected = "'auto' with a config that has graph_options.rewrite_options"
            raise ConfigError(mismatch(self, "grappler", grappler, expected))

    def create_session(self) -> tf.Session:
        """Return the new session.

        Raises:
            DeviceError: The graph asks for a device that the session lacks. No session stays open.
        """
        graph = tf.get_default_graph()
        config = deepcopy(self.config)
        provide_cpu_devices(config, graph)
        if self.grappler == "off":
            config.graph_options.rewrite_options.disable_meta_optimizer = True
        elif self.grappler == "auto":
            choose_rewrites(config, graph)
        _tell_if_sums_may_be_taken_apart(config, graph)
        return self._open_session(graph, config)

    # Sessions on the server of a worker override it.
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
    """Enable the rewrites of a graph that pay in a session, and log them with the reasons.

    ``arithmetic`` turns powers into products, and multiplies transposed matrices without transposing them. ``remap``
    fuses convolutions and matrix products with the bias, normalisation and activation after them, where no gradient
    needs the values between. ``layout`` gives convolutions on GPUs the fastest layout. Each is made once. Operations
    that XLA compiles do not count.

    Args:
        config: a ConfigProto, changed unless it has ``graph_options.rewrite_options``, or
            ``enable_mixed_precision_graph_rewrite`` of TensorFlow was called, which is one of the rewrites.
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
        log_once("TensorFlow runs the graph without rewriting it: nothing in it would get faster.")


def _tell_if_sums_may_be_taken_apart(config: tf.ConfigProto, graph: tf.Graph) -> None:
    """Log that TensorFlow's pass for memory, if enabled, changes the order in which tensors are added.

    On a device that seems short of memory, as a CPU is beyond 205 MB, each summand is added to a variable as soon as it
    is computed.
    """
    rewrites = config.graph_options.rewrite_options
    is_made = not rewrites.disable_meta_optimizer and (not rewrites.optimizers or "memory" in rewrites.optimizers)
    takes_apart = (rewrites.DEFAULT_MEM_OPT, rewrites.SCHEDULING_HEURISTICS, rewrites.HEURISTICS)
    if not is_made or rewrites.memory_optimization not in takes_apart:
        return
    if any(op.type == "AddN" and len(op.inputs) > 2 for op in graph.get_operations()):
        log_once(
            "Sums of three and more tensors may not repeat bit by bit where memory is short: session_config allows "
            "TensorFlow's pass for memory. Set rewrite_options.memory_optimization to NO_MEM_OPT to forbid it."
        )


def _has_rewrite_options(config: tf.ConfigProto) -> bool:
    return bool(config.graph_options.HasField("rewrite_options"))


def _rewrites_that_pay(graph: tf.Graph) -> dict[str, str]:
    """Return TensorFlow's names of the passes, in the order in which they are made, with the reasons."""
    # XLA has rewrites of its own, and does not compile what TensorFlow put in the place of a marked operation.
    operations = [op for op in graph.get_operations() if op.type not in _REWRITTEN or not is_marked_for_compilation(op)]
    types = {op.type for op in operations}
    has_products, matrix_products = not types.isdisjoint(op_kinds.PRODUCTS), op_kinds.MATRIX_PRODUCTS
    reasons = {}
    if "Pow" in types:
        reasons["arithmetic"] = "there are powers"
    elif any(tensor.op.type == "Transpose" for op in operations if op.type in matrix_products for tensor in op.inputs):
        reasons["arithmetic"] = "there are transposed matrices that are multiplied"
    if has_products and list_gpus() and any(kind == "GPU" for kind, _ in local_devices(graph)):
        reasons["layout"] = "there are products on GPUs"
        reasons["remap"] = "they can take in what follows them"
    elif has_products and not any(op_kinds.OPTIMIZER_UPDATE.match(kind) for kind in types):
        reasons["remap"] = "nothing is trained, and products can take in what follows them"
    return reasons


@check_arguments
class ReuseSessionCreator(tf.train.SessionCreator):
    """Return an existing session.

    Args:
        sess: the session.

    Raises:
        WrongTypeError: It is not a session.
    """

    def __init__(self, sess: tf.Session) -> None:
        # A wrapper of a session, such as that of a debugger, need not be one.
        check_function(self, "sess", getattr(sess, "run", sess), "a session")
        self.sess = sess

    def create_session(self) -> tf.Session:
        """Return the session that was given."""
        return self.sess


def makes_new_sessions(session_creator: SessionCreator) -> bool:
    """Tell whether no variable has a value yet in a creator's sessions.

    Sessions on servers share variables, and a user's own creator may have done anything.
    """
    if not isinstance(session_creator, NewSessionCreator) or session_creator.target:
        return False
    return type(session_creator).create_session is NewSessionCreator.create_session


@check_arguments
class SessionCreatorAdapter(tf.train.SessionCreator):
    """Pass the session of another creator through a function.

    Args:
        session_creator: any session creator.
        func: ``func(session) -> session``, for example a wrapper.

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
    """Return a new ConfigProto: soft placement, and GPU memory that grows up to a fraction of the total.

    Soft placement is needed for operations without a GPU kernel. It never moves a tower, since the session creator
    checks that every device of the graph exists.

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
    """Create sessions on a server; the chief initialises the variables, and the others wait for it.

    Args:
        server: a ``tf.train.Server``. The chief is task 0 of its job, unless that is called ``"ps"``.

    Raises:
        WrongTypeError: ``server`` is something else.
    """

    def __init__(self, server: tf.train.Server) -> None:
        if not hasattr(server, "server_def"):
            raise WrongTypeError(mismatch(self, "server", server, "a tf.train.Server"))
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
    """Return a session creator for one task of a cluster, from its ``tf.train.Server``."""
    return ServerSessionCreator(server)
