"""A recurrent network of one's own cells: trained on a text, and asked to go on with it with its states fed back."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.examples import load_example
from tests.helpers.run_script import run_script

char_rnn = load_example("char_rnn")


def test_char_rnn_learns_a_text_and_writes_on(tmp_path):
    run = run_script(char_rnn.main, tmp_path / "train", "train", "--epochs", 4)

    last = run.last
    assert last["losses/cost"] < 0.5
    assert last["perplexity"] == pytest.approx(2.718281828 ** last["losses/cost"], rel=0.1)
    assert [entry["learning_rate"] for entry in run.stats] == pytest.approx([0.01, 0.008, 0.006, 0.004])
    best = str(run.log_dir / "min-losses-cost")
    # One set of weights for all steps.
    weights = {name for name, _ in tf.train.list_variables(best) if name.endswith(("/W", "/b", "embedding"))}
    gates = {f"cell{layer}/gates/{part}" for layer in (0, 1) for part in "Wb"}
    assert weights == {"embedding", "fc/W", "fc/b", *gates}

    written = run_script(
        char_rnn.main, tmp_path / "sample", "sample", "--load", best, "--start", "the shells ", "--num", 40
    ).result
    assert len(written) == len("the shells ") + 40
    # Without its states, which tell how far into a word it is, it could write no word of the text.
    assert written.startswith("the shells she sells sea she")
