"""``tf.contrib``: the parts of it that training code used, each imported when it is first asked for.

Any other name raises an error that says what to use in its place, from `tpack.tf1.removed_names`.
"""

from tpack.tf1.name_table import look_up

_NAMES = (
    "all_reduce cluster_resolver crf data distribute distributions estimator feature_column framework graph_editor "
    "image layers learn legacy_seq2seq lookup losses metrics opt rnn seq2seq signal slim stateless tpu training util"
)

__getattr__, __dir__, __all__ = look_up(__name__, {f"{__name__}.{name}": "" for name in _NAMES.split()})
