from tpack.callbacks.inference.inferencers import BinaryClassificationStats


def evaluate(stats, batches):
    stats._before_inference()
    for batch in batches:
        stats.on_fetches(batch)
    return stats._after_inference()


def test_precision_and_recall_are_those_of_the_whole_set(rng):
    predictions, labels = rng.integers(0, 2, (2, 23))
    batches = [(predictions[start : start + 5], labels[start : start + 5]) for start in range(0, 23, 5)]
    right = (predictions & labels).sum()
    assert evaluate(BinaryClassificationStats("pred", "label"), batches) == {
        "val_precision": right / predictions.sum(),
        "val_recall": right / labels.sum(),
    }


def test_each_pass_begins_anew():
    stats = BinaryClassificationStats("pred:0", "label", prefix="test")
    assert stats.get_fetches() == ["pred:0", "label:0"]
    evaluate(stats, [([1, 1], [0, 0])])
    assert evaluate(stats, [([1], [1])]) == {"test_precision": 1.0, "test_recall": 1.0}
