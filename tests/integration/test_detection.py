"""The detector, end to end on a small made set, and two towers of it against one."""

import re

import cv2
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers import preloaded
from tests.helpers.examples import FOLDER, load_example
from tests.meta.test_house import code_lines
from tpack.tower.context import TowerContext

# Each process builds a graph of thousands of operations.
HERE = FOLDER / "detection"
detection_data, detection_model, faster_rcnn, made_shapes = (
    load_example(name, "detection") for name in ("detection_data", "detection_model", "faster_rcnn", "made_shapes")
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("made")
    made_shapes.write(directory, train=6, val=3)
    return directory


def run(*arguments):
    done = preloaded.run(HERE / "faster_rcnn.py", arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def trained(made, tmp_path_factory):
    """The options of a short training, and the last line that it printed."""
    options = ["--data", made, "--logdir", tmp_path_factory.mktemp("trained") / "log"]
    return options, run(*options, "--epochs", 1, "--steps", 2)[-1]


def test_it_trains_and_tells_its_figures(trained):
    assert re.fullmatch(r"AP: [01]\.\d{3}, AP75: [01]\.\d{3}, AP50: [01]\.\d{3}", trained[1])


def test_a_checkpoint_is_evaluated_as_at_the_end_of_its_training(trained):
    options, figures = trained
    assert run(*options, "--load", options[-1], "--eval") == [figures]


def test_it_predicts_and_draws(trained, made, tmp_path):
    options, _ = trained
    images = sorted((made / "val").iterdir())
    output = ["--predict", *images, "--out", tmp_path / "out", "--least-score", 0.1]
    lines = run(*options, "--load", options[-1], *output)
    assert [line.partition(": ")[0] for line in lines] == [str(path) for path in images]
    texts = ", ".join(line.partition(": ")[2] for line in lines)
    assert re.fullmatch(r"((circle|square|triangle) [01]\.\d\d at \[\d+, \d+, \d+, \d+\](, )?)*", texts)
    for path in images:
        assert cv2.imread(str(tmp_path / "out" / path.name)).shape == cv2.imread(str(path)).shape


def test_towers_make_the_same_of_an_image_and_share_their_variables(made, session8):
    """What is chosen at random in an image is decided by its key, whichever tower gets it."""
    objects, _ = detection_data.read_coco(made, "train")
    model = detection_model.Detector(3, size=48)
    inputs = [tf.placeholder(spec.dtype, spec.shape) for spec in model.inputs()]
    with TowerContext("tower0", is_training=True, total=2):
        first = model.build_graph(*inputs)
    variables = tf.global_variables()
    with (
        tf.variable_scope(tf.get_variable_scope(), reuse=True),
        TowerContext("tower1", is_training=True, index=1, total=2),
    ):
        second = model.build_graph(*inputs)
    assert tf.global_variables() == variables
    session8.run(tf.global_variables_initializer())
    costs = []
    for one in objects[:2]:
        for key in (3, 4):
            point = [*detection_data.load(one)[:3], [one.number, key]]
            costs.append(session8.run([first, second], dict(zip(inputs, point, strict=True))))
    np.testing.assert_allclose(*zip(*costs, strict=True), rtol=1e-5)
    assert len({round(float(cost), 4) for cost, _ in costs}) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--eval"], "need a model: give it with --load"),
        (["--width", "24"], "--width 24: expected a multiple of 16"),
        (["--towers", "0"], "cannot have 0 towers"),
        (["--trainer", "simple", "--towers", "2"], "the trainer simple cannot have 2 towers"),
    ],
)
def test_what_cannot_work_is_refused(capsys, arguments, message):
    with pytest.raises(SystemExit):
        faster_rcnn.main(arguments)
    assert message in capsys.readouterr().err


def test_modules_are_short():
    assert max(code_lines(path.read_text(encoding="utf-8")) for path in HERE.glob("*.py")) <= 150
