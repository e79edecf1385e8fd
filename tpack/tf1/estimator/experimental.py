"""``tf.estimator.experimental``: hooks that end training early or evaluate in between, and functions for logits."""

from tpack.tf1.estimator import early_stopping, hooks, logits
from tpack.tf1.name_table import look_up

_EARLY_STOPPING = (
    "make_early_stopping_hook stop_if_higher_hook stop_if_lower_hook stop_if_no_decrease_hook stop_if_no_increase_hook"
)
_HOOKS = "InMemoryEvaluatorHook make_stop_at_checkpoint_step_hook"
_LOGITS = "call_logit_fn dnn_logit_fn_builder linear_logit_fn_builder"
_PLACES = {
    **{name: f"{early_stopping.__name__}:{name}" for name in _EARLY_STOPPING.split()},
    **{name: f"{hooks.__name__}:{name}" for name in _HOOKS.split()},
    **{name: f"{logits.__name__}:{name}" for name in _LOGITS.split()},
}

__getattr__, __dir__, __all__ = look_up(__name__, _PLACES)
