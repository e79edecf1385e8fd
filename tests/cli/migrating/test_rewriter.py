"""What lines of older scripts become, and that a second time nothing changes."""

import pytest

from tpack.cli.migrating.lint import Note
from tpack.cli.migrating.rewriter import migrate_source
from tpack.errors import ConfigError

CASES = [
    ("import tensorpack\ntensorpack.logger.info(1)", "import tpack\ntpack.logger.info(1)"),
    ("import tensorpack as tp\ntp.logger", "import tpack as tp\ntp.logger"),
    ("import tensorpack.utils.viz as viz", "import tpack.utils.viz as viz"),
    ("from tensorpack.tfutils.summary import *  # all", "from tpack.tfutils.summary import *  # all"),
    ("from tensorpack.dataflow.common import BatchData", "from tpack.dataflow import BatchData"),
    ("from tensorpack.dataflow.prefetch import PrefetchData", "from tpack.dataflow.prefetch import PrefetchData"),
    (
        "if 1:\n    # a\n    from tensorpack.utils.utils import (get_rng,\n        get_tqdm_kwargs)  # b\n",
        "if 1:\n    # a\n    from tpack.utils import get_rng\n    from tpack.utils.utils import get_tqdm_kwargs  # b\n",
    ),
    ("from .tensorpack import x", "from .tensorpack import x"),
    ("from tensorpack import tfv1 as tf\ntf.layers.flatten", "from tpack import tf1 as tf\ntf.layers.flatten"),
    ("from tensorpack import tfv1 as tf\ntf.placeholder(1)", "from tpack import tf1 as tf\ntf.placeholder(1)"),
    ("from tensorpack.compat import tfv1 as tf\ntf.float32", "from tpack.compat import tfv1 as tf\ntf.float32"),
    (
        "from tensorpack.compat import tfv1, is_tfv2\ntfv1.layers.dense(is_tfv2())",
        "from tpack import tf1 as tfv1\nfrom tpack.compat import is_tfv2\ntfv1.layers.dense(is_tfv2())",
    ),
    (
        "import numpy as np\nint(np.searchsorted(a, b)), float(np.random.rand(1)), float(np.random.rand())",
        "import numpy as np\nint(np.squeeze(np.searchsorted(a, b))), float(np.squeeze(np.random.rand(1))), "
        "float(np.random.rand())",
    ),
    (
        "import numpy as np\nfloat(np.random.normal(0, 1, size=1))",
        "import numpy as np\nfloat(np.squeeze(np.random.normal(0, 1, size=1)))",
    ),
    (
        "import numpy as np\nchr(np.random.choice(128, 1, p=p)), chr(np.random.choice(128, p=p))",
        "import numpy as np\nchr(np.squeeze(np.random.choice(128, 1, p=p))), chr(np.random.choice(128, p=p))",
    ),
    ("import numpy as np\nint(np.prod(shape)), int(x)", "import numpy as np\nint(np.prod(shape)), int(x)"),
    ("from numpy import random\nint(random.rand(1))", "from numpy import random\nint(random.rand(1))"),
    (
        "from tensorflow import keras\nfor op in M.updates: run(op)\nM.updates = []",
        'from tensorflow import keras\nfor op in getattr(M, "updates", []): run(op)\nM.updates = []',
    ),
    ("for op in M.updates: run(op)", "for op in M.updates: run(op)"),
    ("cv2.imencode('.jpg', x)[1].tostring()", "cv2.imencode('.jpg', x)[1].tobytes()"),
    ("import tensorpack_medical, mytensorflow", "import tensorpack_medical, mytensorflow"),
    ("import os, tensorflow as tf; tf.nn.relu(1)", "import os, tpack.tf1 as tf; tf.nn.relu(1)"),
    ("import tensorflow as tf\ntf.float32", "import tensorflow.compat.v1 as tf\ntf.float32"),
    (
        "from tensorpack import *\nimport tensorflow as tf\ndef f(x): return tf.nn.relu(x)",
        "from tpack import *\nimport tensorflow.compat.v1 as tf\ndef f(x): return tf.nn.relu(x)",
    ),
    (
        "from tensorpack import *\nimport tensorflow as tf\nx = tf.constant(1)",
        "from tpack import *\nimport tpack.tf1 as tf\nx = tf.constant(1)",
    ),
    (
        "from tensorpack import *\nimport tensorflow as tf\ndef f(): tf.Session()",
        "from tpack import *\nimport tpack.tf1 as tf\ndef f(): tf.Session()",
    ),
    ("import tensorflow\ntensorflow.layers.dense", "import tpack.tf1 as tensorflow\ntensorflow.layers.dense"),
    ("import tensorflow.contrib.slim as slim", "from tpack.tf1.contrib import slim"),
    ("import tensorflow.contrib.layers as L, os", "from tpack.tf1.contrib import layers as L\nimport os"),
    (
        "import tensorflow.contrib.slim\ntensorflow.contrib.slim.conv2d",
        "import tpack.tf1 as tensorflow\ntensorflow.contrib.slim.conv2d",
    ),
    ("from tensorflow.contrib import slim, rnn as r", "from tpack.tf1.contrib import slim, rnn as r"),
    (
        "from tensorflow.contrib.layers.python.layers import batch_norm as norm",
        "from tpack.tf1.contrib.layers import batch_norm as norm",
    ),
    ("import tensorflow.contrib.slim.python.slim as s", "from tpack.tf1.contrib import slim as s"),
    *(
        (
            f"# A.\nimport tensorflow as tf  # a\n\ntf.relu(1)\n{lines}\n",
            f"# A.\nimport tpack.tf1 as tf  # a\ntf.disable_v2_tensorshape()\n\ntf.relu(1)\n{lines}\n",
        )
        for lines in (
            "x.get_shape()[-1].value",
            "for d in v.get_shape(): n *= d.value",
            "s = v.shape\n[d.value for d in s[1:]]",
            "_, h, w = x.get_shape()\nh.value",
            "h = x.shape[1]\nh.value",
        )
    ),
    (
        "import tensorflow as tf\ntf.disable_v2_behavior()\nx.shape[1].value",
        "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\nx.shape[1].value",
    ),
    ("import tensorflow as tf\ntf.relu(1)\nenum.value", "import tpack.tf1 as tf\ntf.relu(1)\nenum.value"),
    ("from tensorflow import layers, float32", "from tpack.tf1 import layers, float32"),
    ("import tensorflow.compat.v1 as tf\ntf.nn.relu(1)", "import tensorflow.compat.v1 as tf\ntf.nn.relu(1)"),
    ("import tensorflow.compat.v1 as tf\ntf.contrib.rnn", "import tpack.tf1 as tf\ntf.contrib.rnn"),
    ("import tensorflow.keras as keras", "import tensorflow.keras as keras"),
    ("import tensorflow as tf\n@tf.function\ndef f(): pass", "import tensorflow as tf\n@tf.function\ndef f(): pass"),
    (
        "from tensorflow.examples.tutorials.mnist import input_data  # a\nimport tensorflow as tf\ntf.nn.relu(1)",
        "from tpack.tf1 import input_data  # a\nimport tpack.tf1 as tf\ntf.nn.relu(1)",
    ),
    (
        "from tensorpack import *\nimport tensorflow as tf\n"
        "import tensorflow.examples.tutorials.mnist.input_data as d\nd.read_data_sets('x')",
        "from tpack import *\nimport tensorflow.compat.v1 as tf\nfrom tpack.tf1 import input_data as d\n"
        "d.read_data_sets('x')",
    ),
    (
        "from tensorflow.examples.tutorials.mnist.input_data import read_data_sets, DataSet",
        "from tpack.tf1.input_data import read_data_sets, DataSet",
    ),
    ("from tensorflow.contrib.learn.python.learn.datasets import mnist", "from tpack.tf1 import input_data as mnist"),
    (
        "from tensorflow.examples.tutorials.mnist import (input_data,\n    mnist)",
        "from tpack.tf1 import input_data\nfrom tensorflow.examples.tutorials.mnist import mnist",
    ),
    ("from scipy.sparse.linalg.eigen.arpack import eigsh  # a", "from scipy.sparse.linalg import eigsh  # a"),
    ("from scipy.misc import logsumexp, comb as c", "from scipy.special import logsumexp, comb as c"),
    (
        "from sklearn import cross_validation, metrics",
        "from sklearn import model_selection as cross_validation, metrics",
    ),
    ("import horovod.tensorflow as hvd", "import tpack.horovod as hvd"),
    ("from horovod.tensorflow.compression import Compression", "from tpack.horovod import Compression"),
    ("from horovod.tensorflow.mpi_ops import allgather, Sum", "from tpack.horovod import allgather, Sum"),
    ("from sklearn.cross_validation import train_test_split", "from sklearn.model_selection import train_test_split"),
    ("import sklearn.grid_search as g", "import sklearn.model_selection as g"),
    ("from sklearn.externals import joblib, funcsigs", "import joblib\nfrom sklearn.externals import funcsigs"),
    ("from .scipy.misc import comb", "from .scipy.misc import comb"),
    ("import numpy as np\nnp.zeros(1, np.int)", "import numpy as np\nnp.zeros(1, int)"),
    ("import numpy as np\nint = 3\nnp.int", "import numpy as np\nint = 3\nnp.int"),
    ("import numpy\nnumpy.float_, numpy.Inf", "import numpy\nnumpy.float64, numpy.inf"),
    ("def f(np): return np.int", "def f(np): return np.int"),
    ("x.astype('u1').tostring()", "x.astype('u1').tobytes()"),
    (
        "import numpy as np\nnp.reshape(x, newshape = (2,\n  3), order='F')",
        "import numpy as np\nnp.reshape(x, (2,\n  3), order='F')",
    ),
    ("from numpy import reshape\nreshape(x, newshape=y)", "from numpy import reshape\nreshape(x, y)"),
    ("import mine\nmine.reshape(x, newshape=y)", "import mine\nmine.reshape(x, newshape=y)"),
    (
        "from tensorflow import Tensor\ntype(f(x)) == Tensor",
        "from tensorflow.compat.v1 import Tensor\nisinstance(f(x), Tensor)",
    ),
    (
        "import tensorflow.compat.v1 as tf\ny = (type(x) is not tf.Tensor)",
        "import tensorflow.compat.v1 as tf\ny = (not isinstance(x, tf.Tensor))",
    ),
    *(
        (line, line)
        for line in (
            "import tensorflow.compat.v1 as tf\ntype(x) is tf.Graph",
            "import tensorflow.compat.v1 as tf\ntype(x) in tf.Tensor",
            "import mine as tf\ntype(x) is tf.Tensor",
        )
    ),
    (
        "import tensorflow as tf\nfrom tensorflow.python.ops import control_flow_ops as c\n(c.while_loop)(c.group())",
        "import tpack.tf1 as tf\nfrom tensorflow.python.ops import control_flow_ops as c\n(tf.while_loop)(c.group())",
    ),
    (
        "import tensorflow as tf\nimport tensorflow.python.framework.graph_util as g\ng.convert_variables_to_constants",
        "import tpack.tf1 as tf\nimport tensorflow.python.framework.graph_util as g\n"
        "tf.graph_util.convert_variables_to_constants",
    ),
    (
        "from tensorflow.python.ops import control_flow_ops\ncontrol_flow_ops.cond(x)",
        "from tensorflow.python.ops import control_flow_ops\ncontrol_flow_ops.cond(x)",
    ),
    (
        "from tensorflow.python.estimator.model_fn import ModeKeys as Modes",
        "from tpack.tf1.estimator import ModeKeys as Modes",
    ),
    ("from tensorflow.python.estimator.canned import head", "from tensorflow.python.estimator.canned import head"),
    (
        "import tensorflow as tf\ndef f(b):\n  a = tf.get_variable('a')\n  a += x if y else z; a *= 2\n  b += 1",
        "import tpack.tf1 as tf\ndef f(b):\n  a = tf.get_variable('a')\n  a = a + (x if y else z); a = a * 2\n  b += 1",
    ),
    (
        "import tensorflow.compat.v1 as tf\na = tf.Variable(1)\nb = tf.ones(1)\nb += a\ndef f(a): a += 1",
        "import tensorflow.compat.v1 as tf\na = tf.Variable(1)\nb = tf.ones(1)\nb += a\ndef f(a): a += 1",
    ),
    ("import collections\ncollections.Mapping", "import collections.abc\ncollections.abc.Mapping"),
    (
        "from collections import Mapping, OrderedDict",
        "from collections.abc import Mapping\nfrom collections import OrderedDict",
    ),
    ("import time\ntime.clock()", "import time\ntime.perf_counter()"),
    ("for i in xrange(a, xrange=xrange(3).xrange): pass", "for i in range(a, xrange=range(3).xrange): pass"),
    (
        "from six.moves import range\n[*xrange (3), f'{(xrange)(4)}']",
        "from six.moves import range\n[*range (3), f'{(range)(4)}']",
    ),
    ("from six.moves import xrange\nxrange(3)", "from six.moves import xrange\nxrange(3)"),
    ("try: xrange\nexcept NameError: xrange = range\nxrange(3)",) * 2,
    ("if 1: import tensorpack; pass", "if 1: import tpack; pass"),
    ("s = 'import tensorpack'  # import tensorpack", "s = 'import tensorpack'  # import tensorpack"),
]


@pytest.mark.parametrize(("before", "after"), CASES, ids=[case[0][:40] for case in CASES])
def test_lines_become_those_of_today_and_stay_so(before, after):
    done = migrate_source(before)
    assert done.source == after
    assert bool(done.changes) == (before != after)
    again = migrate_source(after)
    assert (again.source, again.changes) == (after, [])


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("import numpy as np\n\nnp.sctypes", "numpy.sctypes is not there"),
        ("import tensorflow as tf\n\ntf.contrib.cudnn_rnn.CudnnLSTM(1)", "tf.contrib.cudnn_rnn is not there: use"),
        ("import tensorflow as tf\n\ntf.contrib.learn.Experiment(1)", "use tf.estimator.train_and_evaluate"),
        ("\n\nfrom tensorflow.contrib import cudnn_rnn", "tensorflow.contrib.cudnn_rnn is not there: use"),
        ("\n\nfrom tensorflow.contrib.eager.python import tfe", "tensorflow.contrib.eager.python is not there: build"),
        ("\n\nfrom tensorflow.python.ops import array_ops", "inside of TensorFlow"),
        ("\n\nfrom tensorpack.nowhere import x", "tpack has no module like tensorpack.nowhere"),
        ("\n\nfrom tensorflow.examples.tutorials.mnist import mnist", "use tpack.tf1.input_data for the digits"),
        ("\n\nimport tensorflow.examples.tutorials.mnist.input_data", "use tpack.tf1.input_data for the digits"),
        ("\n\nf('/gpu:0')", "the device '/gpu:0' is fixed"),
        ("\n\nx.shape[1].value", "sizes of shapes are numbers"),
        ("def f():\n  tf.disable_v2_behavior()\nx.shape[1].value", "sizes of shapes are numbers"),
        ("\n\nx.get_shape()[1].value", "sizes of shapes are numbers"),
        ("\n\nx.tostring()", "use tobytes() if this is an array"),
        ("import numpy as np\n\nnp.reshape(newshape=y, a=x)", "numpy.reshape has no newshape"),
        ("\n\nx.iteritems()", "use 2to3"),
        ("\n\nimport cPickle", "use 2to3"),
        ("\n\nimport imp", "use importlib"),
        (
            "from tensorflow.python.estimator.model_fn import ModeKeys\n\nimport tensorflow.python.estimator.canned",
            "import of tensorflow.python.estimator.canned: it is inside",
        ),
        ("\n\nfrom scipy.misc import imread", "scipy.misc.imread is not there: use imageio.imread"),
        ("import inspect\n\ninspect.getargspec(f)", "returns more"),
        ("\n\nfrom tensorpack.utils.viz import nowhere", "tensorpack.utils.viz.nowhere is not there"),
        ("import tensorpack as tp\n\ntp.train.Nowhere()", "tensorpack.train.Nowhere is not there"),
        ("from tensorpack import *\n\nNowhere(BatchData)", "Nowhere is not there: no star import of tpack gives it"),
    ],
)
def test_what_a_person_must_look_at_is_told_with_its_line(source, text):
    (note,) = migrate_source(source).looks
    assert note.line == 3
    assert text in note.text


@pytest.mark.parametrize(
    "source",
    [
        "import tensorflow as tf\ntf.contrib.learn.ModeKeys.TRAIN",
        "from tensorflow.contrib.tpu import TPUEstimator",
        "from six.moves import xrange\nxrange(3)",
        "try:\n    import cPickle as pickle\nexcept ImportError:\n    import pickle",
        "etree.tostring(x)",
        "f('gpu')",
        "six.iteritems(x)",
        "from tensorpack import *\nfrom mine import *\nNowhere()",
        "from tensorpack.tfutils.summary import *\nadd_moving_summary(1)",
        "import tensorpack as tp\ntp.train.SimpleTrainer, tp.utils.viz.stack_patches, tp.dataflow.common.BatchData",
        "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\nx.shape[1].value",
        "from tensorflow.compat.v1 import disable_v2_tensorshape\ndisable_v2_tensorshape()\nx.shape[1].value",
    ],
)
def test_what_works_is_not_told(source):
    assert migrate_source(source).looks == []


def test_each_xrange_is_told_with_its_line():
    assert migrate_source("\nxrange(1)\nf(xrange(2))\n").changes == [
        Note(2, "xrange to range"),
        Note(3, "xrange to range"),
    ]


@pytest.mark.parametrize("source", ["x = (\n", "\nprint 'a'", "if x:\n    pass\nreturn 1\n", "x = 010\n", "\0"])
def test_what_python_refuses_is_refused(source):
    with pytest.raises(ConfigError, match="is not Python 3; use 2to3 first if it is Python 2"):
        migrate_source(source)


@pytest.mark.parametrize(
    ("source", "note"),
    [
        ("\nunicode(3)", Note(2, "unicode is Python 2's; use 2to3")),
        ("xrange(3)\nunicode(3)", Note(2, "unicode is Python 2's; use 2to3")),
        ("\nisinstance(x, xrange)", Note(2, "xrange is Python 2's; use 2to3")),
        ("def f(range):\n    return xrange(range)", Note(2, "xrange is Python 2's; use 2to3")),
    ],
)
def test_names_of_python_2_are_noted_since_they_may_never_be_reached(source, note):
    assert migrate_source(source).looks == [note]


def test_a_source_that_python_3_takes_is_migrated():
    source = """import tensorflow as tf
if six.PY3:
    text = str(text)
else:
    text = unicode(text) if text is 'a' else text
"""
    done = migrate_source(source)
    assert done.source.startswith("import tensorflow.compat.v1 as tf\n")
    assert [note.line for note in done.looks] == [5]


def test_inner_outputs_of_operations_are_today_s_where_graphs_are_edited():
    source = """import tensorflow.contrib.graph_editor as ge
copied, info = ge.copy(ops)
ys = [info._transformed_ops[op]._outputs[0] for op in ops]
self._outputs = ys
"""
    done = migrate_source(source).source
    assert "from tpack.tf1.contrib import graph_editor as ge\n" in done
    assert "info._transformed_ops[op].outputs[0]" in done
    assert "self._outputs = ys" in done
    assert "op._outputs" in migrate_source("import tensorflow as tf\nop._outputs\n").source
