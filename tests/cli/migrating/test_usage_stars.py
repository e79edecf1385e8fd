"""Which files pass TensorFlow on by star imports to files that need more of it."""

import pytest

from tpack.cli.migrating.usage import givers_of_tensorflow

GIVES = "import tensorflow as tf\n"
NEEDS = "import tensorflow as tf\ntf.contrib.layers.conv2d\n"


@pytest.mark.parametrize(
    ("sources", "wanted"),
    [
        ({"utils.py": GIVES, "model.py": f"{NEEDS}from utils import *\n"}, {"utils.py"}),
        ({"utils.py": GIVES, "model.py": "from utils import *\ntf.Session()\n"}, {"utils.py"}),
        ({"utils.py": GIVES, "model.py": f"{NEEDS}import utils\n"}, set()),
        ({"utils.py": GIVES, "model.py": f"{GIVES}from utils import *\ntf.gfile.Exists('x')\n"}, set()),
        ({"utils.py": GIVES, "model.py": "from tensorpack import *\nfrom utils import *\ntf.contrib\n"}, {"utils.py"}),
        ({"utils.py": "def (:\n", "model.py": f"{NEEDS}from utils import *\n"}, set()),
        # Through a third file, and a package.
        (
            {"a/__init__.py": "from .ops import *\n", "a/ops.py": GIVES, "b/main.py": f"{NEEDS}from a import *\n"},
            {"a/__init__.py", "a/ops.py"},
        ),
        # Of two files of a name, the one beside it.
        ({"a/utils.py": GIVES, "b/utils.py": GIVES, "b/x.py": f"{NEEDS}from utils import *\n"}, {"b/utils.py"}),
        ({"tensorpack/ops.py": GIVES, "model.py": f"{NEEDS}from tensorpack.ops import *\n"}, set()),
        ({"utils.py": "from utils import *\ntf.contrib\n"}, set()),
    ],
)
def test_givers_are_files_whose_stars_others_need(sources, wanted):
    assert givers_of_tensorflow(sources) == wanted


def test_what_a_trainer_builds_in_functions_needs_no_more():
    builds = "from tensorpack import *\nfrom utils import *\ndef f():\n    tf.placeholder\n"
    assert givers_of_tensorflow({"utils.py": GIVES, "model.py": builds}) == set()
    assert givers_of_tensorflow({"utils.py": GIVES, "model.py": f"{builds}tf.placeholder\n"}) == {"utils.py"}
