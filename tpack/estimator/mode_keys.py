"""What a model_fn is called for: training, evaluation or prediction."""


class ModeKeys:
    """The three values of the argument ``mode`` of a model_fn."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


MODES = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)
