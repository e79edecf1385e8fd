"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.compat.runtime import get_tf_version_tuple as get_tf_version_tuple
from tpack.compat.runtime import is_tfv2 as is_tfv2
from tpack.compat.runtime import tfv1 as tfv1
