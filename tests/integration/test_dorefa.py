"""A quantised network by a custom getter: what it computes with is quantised, what it saves is not, on K towers too."""

import numpy as np
import pytest

from tests.helpers.examples import load_example
from tests.helpers.run_script import run_script
from tpack.dataflow.dataset import Digits
from tpack.predict import OfflinePredictor, PredictConfig
from tpack.tfutils import SmartInit
from tpack.tfutils.varmanip import load_chkpt_vars

dorefa = load_example("dorefa")
QUANTIZED = ["quantized_conv1", "quantized_conv2"]


@pytest.mark.parametrize(("bits", "num_towers", "levels"), [("1,4", 1, 2), ("2,3", 2, 4)])
def test_dorefa_learns_with_quantised_weights(bits, num_towers, levels, tmp_path):
    run = run_script(dorefa.main, tmp_path, "--dorefa", bits, "--towers", num_towers, "--epochs", 10, "--steps", 24)

    assert run.last["validation_error"] < 0.2
    assert run.last["train_error"] < 0.1
    assert {"activation-summary/logits-rms", "logits_rms", "lr"} <= set(run.last)
    # Once for each training tower, and once for validation; the first and last layers are not quantised.
    lines = [line for line in run.log.splitlines() if "Quantizing weight" in line]
    assert len(lines) == 2 * (num_towers + 1)

    saved = load_chkpt_vars(str(run.log_dir / "model-240"))
    model = dorefa.Model(*map(int, bits.split(",")))
    config = PredictConfig(
        model=model, session_init=SmartInit(saved), input_names=["input"], output_names=["output", *QUANTIZED]
    )
    predictor = OfflinePredictor(config)
    images, labels = (np.stack(part) for part in zip(*Digits("test", shuffle=False), strict=True))
    with predictor.sess:
        probability, *weights = predictor(images)
    assert np.mean(probability.argmax(axis=1) != labels) == pytest.approx(run.last["validation_error"])
    for name, quantized in zip(QUANTIZED, weights, strict=True):
        assert len(np.unique(quantized)) == levels
        original = saved[name.replace("quantized_", "") + "/W"]
        assert len(np.unique(original)) > 1000
        # The sign survives where the magnitude is not the smallest.
        large = np.abs(original) > np.abs(original).mean()
        assert (np.sign(quantized) == np.sign(original))[large].all()
    assert saved["scaled/scale"].std() > 0
