"""A quantised network by a custom getter: what it computes with is quantised, what it saves is not, on K towers too."""

import numpy as np
import pytest

from tests.helpers.run_script import run_script
from tests.integration.scripts import dorefa
from tests.integration.scripts.digits_data import Digits
from tpack.predict import OfflinePredictor, PredictConfig
from tpack.tfutils import SmartInit
from tpack.tfutils.varmanip import load_chkpt_vars

QUANTIZED = ["quantized_conv1", "quantized_conv2"]


@pytest.mark.parametrize(("bits", "num_gpu", "levels"), [("1,4", 1, 2), ("2,3", 2, 4)])
def test_dorefa_learns_with_quantised_weights(bits, num_gpu, levels, tmp_path):
    run = run_script(dorefa.main, tmp_path, "--dorefa", bits, "--num-gpu", num_gpu)

    assert run.last["validation_error"] < 0.15
    assert run.last["train_error"] < 0.1
    assert {"activation-summary/logits-rms", "logits_rms", "lr"} <= set(run.last)
    # Once for each training tower, and once for validation; the first and last layers are not quantised.
    lines = [line for line in run.log.splitlines() if "Quantizing weight" in line]
    assert len(lines) == 2 * (num_gpu + 1)

    saved = load_chkpt_vars(str(run.log_dir / "model-144"))
    model = dorefa.Model(*map(int, bits.split(",")))
    config = PredictConfig(
        model=model, session_init=SmartInit(saved), input_names=["input"], output_names=["output", *QUANTIZED]
    )
    predictor = OfflinePredictor(config)
    digits = Digits("test")
    with predictor.sess:
        probability, *weights = predictor(digits.images)
    assert np.mean(probability.argmax(axis=1) != digits.labels) == pytest.approx(run.last["validation_error"])
    for name, quantized in zip(QUANTIZED, weights, strict=True):
        assert len(np.unique(quantized)) == levels
        original = saved[name.replace("quantized_", "") + "/W"]
        assert len(np.unique(original)) > 1000
        # The sign survives where the magnitude is not the smallest.
        large = np.abs(original) > np.abs(original).mean()
        assert (np.sign(quantized) == np.sign(original))[large].all()
    assert saved["scaled/scale"].std() > 0
