"""Skip connections, unpooling and class-balanced costs, gradients accumulated on two towers, and pictures of it."""

import cv2

from tests.helpers.run_script import run_script
from tests.integration.scripts import segmentation


def test_segmentation_finds_pixels_and_draws_them(tmp_path):
    run = run_script(segmentation.main, tmp_path / "train")

    assert run.last["pixel_recall"] > 0.85
    assert run.last["pixel_precision"] > 0.7
    assert run.last["cost"] < run.stats[0]["cost"]
    assert run.last["psnr"] > 10
    assert run.last["SummaryGradient/logits/b-grad-rms"] > 0
    # 22 steps of two batches an epoch; every second one applies gradients, and all are counted.
    assert [entry["global_step"] for entry in run.stats] == [44, 88, 132]
    assert cv2.imread(str(run.log_dir / "shown-ep003.png")).shape[1] >= 2 * 24

    pictures = tmp_path / "pictures"
    load = run.log_dir / "model-132"
    stats = run_script(segmentation.main, tmp_path / "run", "--load", load, "--run", pictures).result
    assert stats.recall > 0.85
    assert stats.precision > 0.7
    assert len(list((pictures / "data").iterdir())) == 8
    assert cv2.imread(str(pictures / "grid-0.png")).max() == 255
