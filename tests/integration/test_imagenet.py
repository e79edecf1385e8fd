"""The ImageNet example, end to end on a small tree of photographs in the published layout, and on fake ones."""

import importlib
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers import preloaded
from tests.helpers.dataset_files import write_jpeg
from tests.helpers.source import ROOT
from tpack.errors import DataPointError

SCRIPTS = ROOT / "examples" / "imagenet"
CLASSES = 8
# 30 validation images in batches of 8 over two towers: the last batch and the last round are incomplete.
NUM_VALIDATION = 30
SMALL = ["--depth", 18, "--size", 32, "--classes", CLASSES, "--batch", 16, "--towers", 2]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Photographs, each class of a colour of its own, and their lists."""
    rng = np.random.default_rng(8)
    root = tmp_path_factory.mktemp("ilsvrc")
    synsets = [f"n{label:08}" for label in range(CLASSES)]
    lists = {"train": [], "val": []}
    for label, synset in enumerate(synsets):
        for number in range(8):
            write_jpeg(root / "train" / synset / f"{synset}_{number}.JPEG", photograph(rng, label))
            lists["train"].append(f"{synset}/{synset}_{number}.JPEG {label}")
    for number in range(NUM_VALIDATION):
        label = number % CLASSES
        write_jpeg(root / "val" / f"ILSVRC2012_val_{number + 1:08}.JPEG", photograph(rng, label))
        lists["val"].append(f"ILSVRC2012_val_{number + 1:08}.JPEG {label}")
    (root / "meta").mkdir()
    (root / "meta" / "synsets.txt").write_text("\n".join(synsets))
    (root / "meta" / "synset_words.txt").write_text("\n".join(f"{name} class{k}" for k, name in enumerate(synsets)))
    for name, lines in lists.items():
        (root / "meta" / f"{name}.txt").write_text("\n".join(lines))
    return root


def photograph(rng, label):
    color = np.array([label & 1, label >> 1 & 1, label >> 2 & 1]) * 190
    return np.clip(color + rng.normal(20, 20, (40, 48, 3)), 0, 255).astype(np.uint8)


def run_resnet(*arguments):
    done = preloaded.run(SCRIPTS / "resnet.py", [*SMALL, *arguments])
    assert done.returncode == 0, done.stderr
    return done


def errors_printed(done):
    return [float(error) for error in re.findall(r"^val-error-top[15]: ([\d.]+)$", done.stdout, re.MULTILINE)]


def test_it_trains_resumes_evaluates_and_predicts(tree, tmp_path):
    data = ["--data", tree, "--meta", tree / "meta", "--logdir", tmp_path / "log"]

    first = run_resnet(*data, "--epochs", 1, "--workers", 1, "--seed", 1)
    assert re.search(r"^Throughput: [\d.]+ images a second$", first.stdout, re.MULTILINE)
    assert "Throughput (samples/sec)" in first.stderr
    # 64 images in batches of 16.
    assert (tmp_path / "log" / "model-4.data_state.msgpack").exists()

    resumed = run_resnet(*data, "--epochs", 3, "--workers", 2, "--resume")
    assert "training goes on in epoch 2" in resumed.stderr
    assert "start from the beginning" not in first.stderr + resumed.stderr
    statistics = json.loads((tmp_path / "log" / "stats.json").read_text())
    assert [entry["epoch_num"] for entry in statistics] == [1, 2, 3]
    assert [statistics[-1][f"val-error-top{k}"] for k in (1, 5)] == pytest.approx(errors_printed(resumed), abs=1e-6)
    # One in eight is right by chance.
    assert errors_printed(resumed)[0] < 0.5

    load = ["--load", tmp_path / "log"]
    evaluated = run_resnet(*data, *load, "--eval", "--workers", 0)
    assert errors_printed(evaluated) == errors_printed(resumed)

    paths = sorted((tree / "val").iterdir())
    predicted = run_resnet("--meta", tree / "meta", *load, "--predict", *paths)
    guesses = [re.findall(r"class(\d)", line) for line in predicted.stdout.splitlines() if ".JPEG: " in line]
    wrong = [[str(k % CLASSES) not in guess[:first] for k, guess in enumerate(guesses)] for first in (1, 5)]
    assert [len(guess) for guess in guesses] == [5] * NUM_VALIDATION
    assert errors_printed(evaluated) == pytest.approx([np.mean(each) for each in wrong], abs=1e-6)


def test_what_processes_train_and_evaluate_together_is_what_one_evaluates_and_goes_on_with(tree, tmp_path):
    data = ["--data", tree, "--meta", tree / "meta", "--logdir", tmp_path / "log", "--workers", 0, "--seed", 1]
    options = [*SMALL, *data, "--towers", 1, "--trainer", "cluster", "--epochs", 1, "--steps-per-epoch", 2]
    launch = [sys.executable, "-m", "tpack", "launch", "-n", "2", SCRIPTS / "resnet.py", *options]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(list(map(str, launch)), capture_output=True, text=True, env=env, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [float(error) for error in re.findall(r"^\[0\] val-error-top[15]: ([\d.]+)$", done.stdout, re.MULTILINE)]
    # Statistics of two steps: those of the other process would give other errors.
    assert found[0] > 0
    assert errors_printed(run_resnet(*data, "--load", tmp_path / "log", "--eval")) == found

    resumed = run_resnet(*data, "--epochs", 2, "--resume")
    assert "The rest of the data of 2 workers is dealt out to 1." in resumed.stderr
    statistics = json.loads((tmp_path / "log" / "stats.json").read_text())
    assert [entry["global_step"] for entry in statistics] == [2, 6]


def test_it_trains_on_fake_images(tmp_path):
    options = ["--trainer", "strategy", "--variant", "preact", "--steps-per-epoch", 2, "--epochs", 1]
    done = run_resnet("--fake", *options, "--batch", 8, "--logdir", tmp_path / "log")
    assert re.search(r"^Throughput: [\d.]+ images a second$", done.stdout, re.MULTILINE)
    (entry,) = json.loads((tmp_path / "log" / "stats.json").read_text())
    # Random classes are guessed as well as chance allows, log(8) = 2.08, or a little worse.
    assert 1.5 < entry["loss"] < 4


@pytest.fixture
def script(monkeypatch):
    """A function that imports one of the scripts."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module


@pytest.mark.parametrize(
    ("depth", "variant", "data_format", "count"),
    [
        # As the papers' authors, torchvision and timm count them.
        (18, "preact", "channels_first", 11_687_720),
        (18, "se", "channels_first", 11_778_592),
        (50, "resnet", "channels_first", 25_557_032),
        (50, "resnext", "channels_last", 25_028_904),
    ],
)
def test_networks_have_as_many_parameters_as_published(graph, script, depth, variant, data_format, count):
    tf = importlib.import_module("tensorflow.compat.v1")
    tower = importlib.import_module("tpack.tower.context")
    with tower.TowerContext("", True):
        logits = script("resnet_model").ResNet(depth, variant, data_format=data_format)(tf.zeros([2, 64, 64, 3]))
    assert logits.shape == [2, 1000]
    assert sum(variable.shape.num_elements() for variable in tf.trainable_variables()) == count


@pytest.mark.parametrize(
    ("name", "make", "size", "parameters", "multiply_adds"),
    [
        # Parameters, and multiply-adds with all digits, are of the reference implementations. Papers round.
        ("alexnet", lambda module: module.alexnet, 227, 60_965_224, 724_406_816),
        ("vgg", lambda module: module.VGG(), 224, 138_357_544, 15_470_264_320),
        ("vgg", lambda module: module.VGG("BN", data_format="channels_first"), 224, 138_365_992, 15_470_264_320),
        ("inception_bn", lambda module: module.inception_bn, 224, 11_295_240, 2.03e9),
        ("shufflenet", lambda module: module.ShuffleNet1(3), 224, 1_865_728, 137e6),
        ("shufflenet", lambda module: module.ShuffleNet1(3, 0.5), 224, 718_324, 38e6),
        ("shufflenet", lambda module: module.ShuffleNet2(1.0), 224, 2_278_604, 145e6),
    ],
)
def test_networks_cost_what_is_published(script, name, make, size, parameters, multiply_adds):
    found = script("imagenet_model").cost_of(make(script(name)), size)
    tolerance = 0 if multiply_adds % 1000 else 0.02
    assert found == (parameters, pytest.approx(multiply_adds, rel=tolerance))


@pytest.mark.parametrize("name", ["alexnet", "vgg", "inception_bn", "shufflenet"])
def test_other_networks_have_the_same_options(script, name, capsys):
    with pytest.raises(SystemExit):
        script(name).main(["--fake", "--towers", "3", "--batch", "4", "--export", "x", "--load", "y"])
    assert "a batch of 4 images cannot be divided among 3 towers" in capsys.readouterr().err


def test_alexnet_trains(tmp_path):
    options = ["--fake", "--size", 72, "--classes", 5, "--batch", 4, "--steps-per-epoch", 1, "--epochs", 1]
    done = preloaded.run(SCRIPTS / "alexnet.py", [*options, "--logdir", tmp_path / "log"])
    assert done.returncode == 0, done.stderr
    assert re.search(r"^[\d.]+ million parameters, [\d.]+ million multiply-adds an image$", done.stdout, re.MULTILINE)
    (entry,) = json.loads((tmp_path / "log" / "stats.json").read_text())
    assert 0.5 < entry["loss"] < 20


def test_a_rate_falls_on_a_line(script):
    rate = script("shufflenet").RECIPE.learning_rate
    assert [rate(epoch, 1024) for epoch in (1, 6, 121)] == pytest.approx([0.125, 0.5 * 235 / 240, 0.25])


def test_deep_networks_have_as_many_layers_as_they_are_called(script):
    blocks = script("resnet_model").BLOCKS
    assert {depth: sum(blocks[depth]) * (3 if depth >= 50 else 2) + 2 for depth in blocks} == {k: k for k in blocks}


def test_the_rate_follows_the_recipe(script):
    rate = script("resnet").RECIPE.learning_rate
    epochs = [1, 2, 6, 30, 31, 60, 61, 90, 91, 100]
    assert [rate(epoch, 256) for epoch in epochs] == pytest.approx([0.1] * 4 + [0.01] * 2 + [1e-3] * 2 + [1e-4] * 2)
    assert [rate(epoch, 2048) for epoch in epochs] == pytest.approx(
        [0.1, 0.24, 0.8, 0.8, 0.08, 0.08, 0.008, 0.008, 8e-4, 8e-4]
    )
    assert rate(1, 64) == pytest.approx(0.025)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give the directory of the images with --data, or --fake"),
        (["--data", "x", "--eval"], "need a model: give it with --load"),
        (["--eval", "--fake", "--load", "x"], "--eval needs images"),
        (["--fake", "--towers", "7"], "a batch of 256 images cannot be divided among 7 towers"),
        (["--fake", "--towers", "2", "--trainer", "simple"], "the simple trainer has one tower, not 2"),
        (["--fake", "--export", "x"], "need a model: give it with --load"),
        (["--fake", "--depth", "34", "--variant", "resnext"], "resnext has a depth of 50 or more, not 34"),
    ],
)
def test_what_cannot_work_is_refused(script, capsys, arguments, message):
    with pytest.raises(SystemExit):
        script("resnet").main(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("part", ["training", "validation"])
def test_labels_that_the_model_has_no_class_for_are_refused(tree, script, part):
    make = getattr(script("imagenet_data"), f"{part}_batches")
    with pytest.raises(DataPointError, match="labels from 0 to 7: expected 0 to 4 for 5 classes"):
        make(tree, 5, 16, 5, meta_dir=tree / "meta")


@pytest.mark.parametrize("name", ["training_data", "evaluation"])
def test_too_few_classes_are_refused_before_training(tree, script, name):
    recipe = script("imagenet_recipe")
    arguments = ["--data", str(tree), "--meta", str(tree / "meta"), "--classes", "5"]
    options = recipe.make_parser(script("resnet").RECIPE, "").parse_args(arguments)
    with pytest.raises(DataPointError, match="expected 0 to 4 for 5 classes"):
        getattr(recipe, name)(options)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_go_on_where_they_were_with_the_same_crops(tree, script, num_workers):
    data = script("imagenet_data")

    def make():
        flow, count = data.training_batches(tree, 5, 16, CLASSES, meta_dir=tree / "meta", num_workers=num_workers)
        assert count == 64
        flow.reset_state()
        return flow

    first, second = make(), make()
    points = iter(first)
    before = [next(points) for _ in range(3)]
    state = first.state_dict()
    after = [next(points) for _ in range(4)]
    second.load_state_dict(state)
    for (images, labels), (other_images, other_labels) in zip(after, iter(second), strict=False):
        np.testing.assert_array_equal(images, other_images)
        np.testing.assert_array_equal(labels, other_labels)
        assert (images.shape, images.dtype, labels.dtype) == ((5, 16, 16, 3), np.uint8, np.int32)
    assert not np.array_equal(before[0][0], after[0][0])
    points.close()
    for flow in (first, second):
        close = getattr(flow, "close", None)
        if close:
            close()
