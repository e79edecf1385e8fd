"""Flags that scripts define, by the functions of ``tf.flags`` and ``tf.app.flags``."""

import pytest
import tensorflow.compat.v1 as tfv1
from absl import flags as absl_flags

import tpack.tf1 as tf
from tpack.errors import MissingNameError

NAME = "a_flag_of_this_test"


@pytest.fixture
def kept():
    """Keep the flags of this process as they are."""
    before = [absl_flags.FLAGS[name] for name in ("log_dir", "verbosity")]
    yield
    for name in {NAME, *(flag.name for flag in before)} & set(absl_flags.FLAGS):
        delattr(absl_flags.FLAGS, name)
    for flag in before:
        flag.allow_override = True
        absl_flags.DEFINE_flag(flag, module_name="absl.logging")
        flag.allow_override = False


@pytest.mark.parametrize("flags", [tf.flags, tf.app.flags], ids=["tf.flags", "tf.app.flags"])
def test_a_script_defines_a_flag_that_the_logging_of_absl_has(kept, flags):
    flags.DEFINE_string("log_dir", "logs", "Where logs are written.")
    flags.DEFINE_integer(flag_name="verbosity", default_value=3, docstring="How much is said.")
    flags.FLAGS(["program", "--log_dir=other"])
    assert (flags.FLAGS.log_dir, flags.FLAGS.verbosity) == ("other", 3)


def test_a_flag_that_a_script_defines_twice_is_an_error(kept):
    for name in (NAME, "log_dir"):
        tf.flags.DEFINE_float(name, 0.5, "The first.")
        assert absl_flags.FLAGS.find_module_defining_flag(name) == __name__
        with pytest.raises(tf.flags.DuplicateFlagError, match=name):
            tf.flags.DEFINE_float(name, 0.25, "The second.")


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(MissingNameError, match=r"tf.flags.DEFINE_strin is not there: .*did you mean 'DEFINE_string'"):
        _ = tf.flags.DEFINE_strin


def test_flags_are_those_of_tensorflow(kept):
    tf.flags.DEFINE_bool(NAME, True, "One.")
    assert tf.flags.FLAGS is tfv1.flags.FLAGS
    assert tf.app.flags is tf.flags
    assert {"DEFINE_string", "FLAGS", "mark_flag_as_required"} <= set(dir(tf.flags))
    assert tf.app.run is tfv1.app.run
