"""``tf.contrib.training``: hyper-parameters, train ops, and the plain loops of training and evaluation."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "evaluation": "StopAfterNEvalsHook SummaryAtEndHook evaluate_once evaluate_repeatedly get_or_create_eval_step",
        "hparam": "HParams parse_values",
        "training": "clip_gradient_norms_fn create_train_op train",
        "tpack.tf1.contrib.slim.evaluation": "wait_for_new_checkpoint",
        "tpack.tf1.contrib.layers.optimizers": "add_gradients_summaries clip_gradient_norms multiply_gradients",
        "tensorflow.compat.v1.train": "checkpoints_iterator",
    },
)
