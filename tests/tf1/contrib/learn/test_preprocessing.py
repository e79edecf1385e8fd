"""Rows of numbers from texts, as TensorFlow 1.15 made them."""

import numpy as np
import pytest

import tpack.tf1 as tf
from tpack.errors import MissingNameError, TpackError
from tpack.tf1.contrib.learn import ModeKeys
from tpack.tf1.contrib.learn.preprocessing import CategoricalVocabulary, VocabularyProcessor

DOCUMENTS = ["The cat's NASA-like co-op, isn't it? HelloWorld ABCdef", "the the cat Cat ÉTÉ naïve x_y", ""]


def test_words_get_numbers_in_the_order_in_which_they_come():
    processor = VocabularyProcessor(8)

    rows = list(processor.fit_transform(DOCUMENTS))

    # What TensorFlow 1.15 says of these texts.
    assert np.array(rows).tolist() == [[1, 2, 3, 4, 5, 6, 7, 8], [12, 12, 13, 14, 15, 16, 17, 0], [0] * 8]
    assert rows[0].dtype == np.int64
    assert len(processor.vocabulary_) == 18
    assert list(processor.reverse(rows[:1])) == ["The cat's NASA -like co-op isn't it Hello"]
    assert [row.tolist() for row in processor.transform(["zebra cat the"])] == [[0, 13, 12, 0, 0, 0, 0, 0]]


def test_rare_words_are_not_known_and_frequent_ones_come_first():
    processor = VocabularyProcessor(4, min_frequency=1, tokenizer_fn=lambda texts: (each.split() for each in texts))

    rows = processor.fit_transform(["b a a c", "a b"])

    assert [row.tolist() for row in rows] == [[2, 1, 1, 0], [1, 2, 0, 0]]


def test_a_processor_that_was_saved_knows_its_words(tmp_path):
    processor = VocabularyProcessor(3).fit(["one two"])
    processor.save(str(tmp_path / "words"))

    restored = tf.contrib.learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / "words"))

    assert [row.tolist() for row in restored.transform(["two three one"])] == [[2, 0, 1]]


def test_a_vocabulary_keeps_words_between_two_frequencies():
    vocabulary = CategoricalVocabulary(support_reverse=False)
    for word, count in (("a", 5), ("b", 3), ("c", 3), ("d", 1)):
        vocabulary.add(word, count)

    vocabulary.trim(1, 5)
    vocabulary.freeze()

    assert [vocabulary.get(word) for word in "abcd"] == [0, 1, 2, 0]
    with pytest.raises(ValueError, match="support_reverse=False"):
        vocabulary.reverse(1)


def test_what_cannot_be_is_refused():
    with pytest.raises(TpackError, match="max_document_length"):
        VocabularyProcessor(0)
    with pytest.raises(ValueError, match="Invalid mode run"):
        ModeKeys.validate("run")
    with pytest.raises(MissingNameError, match=r"tf\.contrib\.learn\.DNNClassifier is not there: of it, ModeKeys"):
        tf.contrib.learn.DNNClassifier  # noqa: B018 (reading it is the test)
    assert tf.contrib.learn.ModeKeys.INFER == tf.estimator.ModeKeys.PREDICT
