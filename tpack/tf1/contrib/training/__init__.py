"""``tf.contrib.training``: hyper-parameters, train ops, and the plain loops of training and evaluation."""

from tpack.tf1.name_table import look_up

_PACKAGE = "tpack.tf1.contrib.training"

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "HParams": f"{_PACKAGE}.hparam:HParams",
        "StopAfterNEvalsHook": f"{_PACKAGE}.evaluation:StopAfterNEvalsHook",
        "SummaryAtEndHook": f"{_PACKAGE}.evaluation:SummaryAtEndHook",
        "add_gradients_summaries": "tpack.tf1.contrib.slim.learning:add_gradients_summaries",
        "checkpoints_iterator": "tf.train.checkpoints_iterator",
        "clip_gradient_norms": "tpack.tf1.contrib.slim.learning:clip_gradient_norms",
        "clip_gradient_norms_fn": f"{_PACKAGE}.training:clip_gradient_norms_fn",
        "create_train_op": f"{_PACKAGE}.training:create_train_op",
        "evaluate_once": f"{_PACKAGE}.evaluation:evaluate_once",
        "evaluate_repeatedly": f"{_PACKAGE}.evaluation:evaluate_repeatedly",
        "get_or_create_eval_step": f"{_PACKAGE}.evaluation:get_or_create_eval_step",
        "multiply_gradients": "tpack.tf1.contrib.slim.learning:multiply_gradients",
        "parse_values": f"{_PACKAGE}.hparam:parse_values",
        "train": f"{_PACKAGE}.training:train",
        "wait_for_new_checkpoint": "tpack.tf1.contrib.slim.evaluation:wait_for_new_checkpoint",
    },
)
