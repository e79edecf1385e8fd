"""Make rows of numbers from texts: ``tf.contrib.learn.preprocessing`` of TensorFlow 1."""

import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tpack.utils.validation import check_count

_TOKEN = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+")

Tokenizer = Callable[[Iterable[str]], Iterator[list[str]]]


class CategoricalVocabulary:
    """Numbers for words, in the order in which they came; 0 is for those that are not known.

    Args:
        unknown_token: what stands for those.
        support_reverse: whether `reverse` will be asked.
    """

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True) -> None:  # noqa: S107
        self._unknown_token = unknown_token
        self._mapping = {unknown_token: 0}
        self._support_reverse = support_reverse
        self._counts: Counter[str] = Counter()
        self._frozen = False

    def __len__(self) -> int:
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """Give no numbers to new words any more, or do so again."""
        self._frozen = freeze

    def get(self, category: str) -> int:
        """Return the number of a word, which gets one if it is new."""
        if category not in self._mapping and not self._frozen:
            self._mapping[category] = len(self._mapping)
        return self._mapping.get(category, 0)

    def add(self, category: str, count: int = 1) -> None:
        """Count a word."""
        if self.get(category) > 0:
            self._counts[category] += count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Keep the words counted more than ``min_frequency`` times, those counted most first.

        Words counted ``max_frequency`` times or more go, too; -1 for no limit.
        """
        by_frequency = sorted(sorted(self._counts.items()), key=lambda item: item[1], reverse=True)
        self._mapping = {self._unknown_token: 0}
        for word, count in by_frequency:
            if count > min_frequency and (max_frequency < 0 or count < max_frequency):
                self._mapping[word] = len(self._mapping)
        self._counts = Counter({word: self._counts[word] for word in self._mapping if word in self._counts})

    def reverse(self, class_id: int) -> str:
        """Return the word of a number; raise ValueError if the vocabulary keeps no words for numbers."""
        if not self._support_reverse:
            raise ValueError("This vocabulary was made with support_reverse=False, and has no words for numbers")
        return list(self._mapping)[class_id]


class VocabularyProcessor:
    """Rows of equal length from texts: the number of each word, and zeros behind.

    Args:
        max_document_length: how many words of a text are looked at.
        min_frequency: words that are seen this often or less are not known.
        vocabulary: an object as `CategoricalVocabulary`; a new one unless given.
        tokenizer_fn: from texts to lists of words; by default letters, digits, hyphens and apostrophes make words.
    """

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: Any = None,
        tokenizer_fn: Tokenizer | None = None,
    ) -> None:
        self.max_document_length = check_count(self, "max_document_length", max_document_length)
        self.min_frequency = check_count(self, "min_frequency", min_frequency, minimum=0)
        self.vocabulary_ = CategoricalVocabulary() if vocabulary is None else vocabulary
        self._tokenizer = tokenizer if tokenizer_fn is None else tokenizer_fn

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> "VocabularyProcessor":
        """Give numbers to the words of texts, and to no others from then on."""
        for words in self._tokenizer(raw_documents):
            for word in words:
                self.vocabulary_.add(word)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Iterable[str], unused_y: Any = None) -> Iterator[np.ndarray]:
        """Call `fit`, then `transform`."""
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[np.ndarray]:
        """Yield a row of int64 for each text."""
        for words in self._tokenizer(raw_documents):
            row = np.zeros(self.max_document_length, np.int64)
            known = [self.vocabulary_.get(word) for word in words[: self.max_document_length]]
            row[: len(known)] = known
            yield row

    def reverse(self, documents: Iterable[Iterable[int]]) -> Iterator[str]:
        """Yield the text of each row, with a space between words."""
        for row in documents:
            yield " ".join(self.vocabulary_.reverse(number) for number in row)

    def save(self, filename: str) -> None:
        """Write this object to a file, as a pickle."""
        Path(filename).write_bytes(pickle.dumps(self))

    @classmethod
    def restore(cls, filename: str) -> "VocabularyProcessor":
        """Read what `save` wrote. A pickle can run any code: read only those that you wrote."""
        return pickle.loads(Path(filename).read_bytes())


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words of each text."""
    for document in iterator:
        yield _TOKEN.findall(document)
