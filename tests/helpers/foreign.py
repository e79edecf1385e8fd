"""Iterables that can do what those of other libraries can, which are not installed for the tests."""

import numpy as np

COUNT = 7


class Tensor:
    """Can do what is used of a tensor of PyTorch."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.is_detached = False

    def detach(self):
        self.is_detached = True
        return self

    def cpu(self):
        return self

    def numpy(self):
        assert self.is_detached
        return self.values


class Picture:
    """Can do what is used of an image of Pillow."""

    def __init__(self, values):
        self.__array_interface__ = np.asarray(values).__array_interface__


def point(number):
    return [Tensor([number, number]), number]


class Loader:
    """Like PyTorch's DataLoader: a length, and an iterator of its own for each pass."""

    def __len__(self):
        return COUNT

    def __iter__(self):
        yield from map(point, range(COUNT))


class MapStyle:
    """Like a data set of PyTorch: a length, and data points by their numbers."""

    def __init__(self):
        self.read = []

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        self.read.append(index)
        return {"x": Tensor([index]), "name": str(index)}


class GrainIterator:
    """Like an iterator of grain: it tells its position and goes to one."""

    def __init__(self):
        self.index = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.index == COUNT:
            raise StopIteration
        self.index += 1
        return {"x": np.int64(self.index)}

    def get_state(self):
        return {"next_index": self.index}

    def set_state(self, state):
        self.index = state["next_index"]


class GrainDataset:
    """Like an IterDataset of grain: no length, an iterator with a position."""

    def __iter__(self):
        return GrainIterator()


class StatefulLoader:
    """Like torchdata's StatefulDataLoader: the loader tells the position, and each pass has an order of its own."""

    def __init__(self):
        self.number, self.yielded, self.is_resumed = -1, 0, False

    def __len__(self):
        return COUNT

    def __iter__(self):
        if self.is_resumed and self.yielded < COUNT + 1:
            self.is_resumed = False
        else:
            self.number, self.yielded, self.is_resumed = self.number + 1, 0, False
        order = np.random.RandomState(self.number).permutation(COUNT).tolist()
        for k in order[self.yielded :]:
            self.yielded += 1
            yield point(k)
        self.yielded = COUNT + 1

    def state_dict(self):
        return {"number": Tensor(self.number), "yielded": (self.yielded,), 3: None}

    def load_state_dict(self, state):
        self.number, (self.yielded,) = int(state["number"].numpy_of()), state["yielded"]
        self.is_resumed = True


class FaceDataset:
    """Like an IterableDataset of Hugging Face: after it was sent to a position, every pass begins there."""

    def __init__(self):
        self.start = {"index": 0}
        self.now = {"index": 0}

    def set_epoch(self, epoch):
        raise NotImplementedError

    def __iter__(self):
        self.now = dict(self.start)
        while self.now["index"] < COUNT:
            self.now["index"] += 1
            yield {"x": self.now["index"], "y": [1, 2]}

    def state_dict(self):
        return dict(self.now)

    def load_state_dict(self, state):
        self.start = dict(state)
