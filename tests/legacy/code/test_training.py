"""Older names of inputs, trainers and checkpoints."""

import pickle

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.horovod.trainer import BytePSTrainer, HorovodTrainer
from tpack.legacy.code import training as older
from tpack.tfutils.sessinit import JustCurrentSession, SaverRestore


@pytest.mark.usefixtures("graph")
def test_an_input_is_a_spec_with_the_dtype_first():
    desc = older.InputDesc(tf.float32, (None, 3), "x")
    assert (desc.type, desc.shape.as_list(), desc.name) == (tf.float32, [None, 3], "x")
    assert isinstance(desc, tf.TensorSpec)
    assert pickle.loads(pickle.dumps(desc)) == desc
    placeholder = desc.build_placeholder_reuse()
    assert desc.build_placeholder_reuse() is placeholder
    assert older.InputDesc.from_placeholder(placeholder) == desc


def test_trainers_on_horovod_are_those_of_tpack():
    assert older.HorovodTrainer is HorovodTrainer
    assert older.BytePSTrainer is BytePSTrainer
    with pytest.raises(AttributeError, match="no attribute 'no_such_trainer'"):
        older.no_such_trainer  # noqa: B018 (the access raises)


def test_the_thread_of_a_queue_that_scripts_made_is_refused_with_what_to_do():
    with pytest.raises(ConfigError, match=r"use QueueInput\(ds, queue="):
        older.EnqueueThread(None, None, [])


def test_checkpoints_are_found(session8, log_dir):
    assert type(older.TryResumeTraining()) is JustCurrentSession
    variable = tf.get_variable("weight", initializer=3.0)
    session8.run(variable.initializer)
    saver = tf.train.Saver()
    paths = [saver.save(session8, f"{log_dir}/model", global_step=step) for step in (5, 20)]
    assert older.get_all_checkpoints(log_dir) == [(paths[0], 5), (paths[1], 20)]
    assert isinstance(older.TryResumeTraining(), SaverRestore)
    assert older.dump_chkpt_vars(paths[1]) == {"weight": np.float32(3)}


def test_versions_are_numbers_and_text():
    assert older.get_tf_version() == tf.__version__
    assert 2.1 <= older.get_tf_version_number() < 3
    assert older.get_op_tensor_name("cost") == ("cost", "cost:0")


def test_steps_are_counted(session8):
    step = tf.train.get_or_create_global_step()
    session8.run(step.assign(7))
    assert older.get_global_step() == 7
