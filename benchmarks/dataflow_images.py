"""JPEGs decoded, cropped at random, resized to 224 x 224, flipped and put into batches of 64: images per second.

    python benchmarks/dataflow_images.py --images 4000 --rounds 5 --out dataflow_images.json

First in one process: a bare loop of the OpenCV calls, against a flow that does the same, augments and batches. Then on
all cores: as many processes with the bare loop, which keep their batches to themselves, against
`MultiProcessMapAndBatchData`, which brings them to one process, and against PyTorch's DataLoader with the same function
where PyTorch is installed. The loops draw their random numbers as the augmentors do.

OpenCV has one thread in each process that is measured, as it should where processes share the cores. A round has to
have many batches for each process: a few of them say nothing about the runners, which work ahead.
"""

import importlib.util
import math
import multiprocessing
import os
import time

import cv2
import numpy as np
from timing import Samples, argument_parser, print_table, write_json

from tpack.dataflow import (
    AugmentImageComponent,
    BatchData,
    DataFromList,
    FixedSizeData,
    MapDataComponent,
    RepeatedData,
    imgaug,
)
from tpack.dataflow.parallel import MultiProcessMapAndBatchData

BATCH, SIZE = 64, 224
HEIGHT, WIDTH = 375, 500
DISTINCT = 64
"""How many images there are; they are taken again and again, from memory."""

LOOP, FLOW = "bare loop, one process", "tpack flow, one process"
LOOPS, RUNNER, LOADER = "bare loops, all cores", "tpack runner, all cores", "PyTorch DataLoader, all cores"


def make_jpegs(count, seed=0):
    """Return the bytes of images that are about as hard to decode as photographs: noise of several sizes."""
    rng = np.random.default_rng(seed)
    jpegs = []
    for _ in range(count):
        image = np.zeros((HEIGHT, WIDTH, 3), np.float32)
        for cell in (4, 16, 64, 128):
            noise = rng.normal(0, 30, (HEIGHT // cell + 2, WIDTH // cell + 2, 3)).astype(np.float32)
            image += cv2.resize(noise, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
        pixels = np.clip(image + 128, 0, 255).astype(np.uint8)
        jpegs.append(cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, 92])[1])
    return jpegs


def decode(jpeg):
    """Return an image."""
    return cv2.imdecode(jpeg, cv2.IMREAD_COLOR)


def make_augmentors():
    """Return what the loop below is written out from."""
    return [imgaug.GoogleNetRandomCropAndResize(target_shape=SIZE), imgaug.Flip(horiz=True)]


def augment_by_hand(image, rng):
    """Crop at random, resize and flip, without tpack."""
    height, width = image.shape[:2]
    for _ in range(10):
        area, ratio = rng.uniform(0.08, 1) * height * width, rng.uniform(0.75, 1.333)
        crop_height, crop_width = int(math.sqrt(area / ratio) + 0.5), int(math.sqrt(area * ratio) + 0.5)
        if rng.rand() < 0.5:
            crop_height, crop_width = crop_width, crop_height
        if crop_height <= height and crop_width <= width:
            y, x = rng.randint(height - crop_height + 1), rng.randint(width - crop_width + 1)
            image = image[y : y + crop_height, x : x + crop_width]
            break
    image = cv2.resize(image, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR)
    return cv2.flip(image, 1) if rng.rand() < 0.5 else image


class AugmentPoint:
    """Decodes and augments the image of a data point: the function of the runner and of the DataLoader."""

    def __init__(self):
        self.augmentors = imgaug.AugmentorList(make_augmentors())

    def __call__(self, point):
        """Return the point with the image."""
        cv2.setNumThreads(1)
        return [self.augmentors.augment(decode(point[0])), point[1]]


def loop_by_hand(jpegs, num_images, seed=0):
    """Make batches of images and labels, without tpack."""
    cv2.setNumThreads(1)
    rng = np.random.RandomState(seed)
    for start in range(0, num_images, BATCH):
        batch = np.empty((BATCH, SIZE, SIZE, 3), np.uint8)
        labels = np.empty(BATCH, np.int64)
        for place in range(BATCH):
            number = (start + place) % len(jpegs)
            batch[place] = augment_by_hand(decode(jpegs[number]), rng)
            labels[place] = number


def loop_in_process(jpegs, num_images, seed, barrier):
    """Be one of the processes that run the loop: say when it begins and when it ends."""
    loop_by_hand(jpegs, BATCH, seed)
    barrier.wait()
    loop_by_hand(jpegs, num_images, seed)
    barrier.wait()


def points_of(jpegs):
    """Return an endless flow of the images, as bytes, and labels."""
    return RepeatedData(DataFromList([[jpeg, number] for number, jpeg in enumerate(jpegs)]), -1)


def secs_of_flow(jpegs, num_images):
    """Return how long a flow takes in this process."""
    cv2.setNumThreads(1)
    source = FixedSizeData(points_of(jpegs), num_images)
    flow = BatchData(AugmentImageComponent(MapDataComponent(source, decode), make_augmentors(), copy=False), BATCH)
    flow.reset_state()
    start = time.perf_counter()
    for _ in flow:
        pass
    return time.perf_counter() - start


def secs_of_loop(jpegs, num_images):
    """Return how long the loop takes in this process."""
    start = time.perf_counter()
    loop_by_hand(jpegs, num_images)
    return time.perf_counter() - start


def secs_of_loops(jpegs, num_images, num_procs):
    """Return how long the loop takes in several processes that share the images."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(num_procs + 1)
    share = num_images // num_procs
    processes = [
        context.Process(target=loop_in_process, args=(jpegs, share, seed, barrier)) for seed in range(num_procs)
    ]
    for process in processes:
        process.start()
    barrier.wait()
    start = time.perf_counter()
    barrier.wait()
    secs = time.perf_counter() - start
    for process in processes:
        process.join()
    return secs


def secs_of_batches(batches, num_images, num_procs):
    """Return how long an iterator takes, after the batch that each process began with, which do not count.

    All processes begin at the same time, so these batches come together, and so do the last ones.
    """
    for _ in range(num_procs):
        next(batches)
    start = time.perf_counter()
    for _ in range(num_images // BATCH):
        next(batches)
    return time.perf_counter() - start


def secs_of_runner(jpegs, num_images, num_procs):
    """Return how long tpack's runner takes, after its processes have begun."""
    flow = MultiProcessMapAndBatchData(points_of(jpegs), num_procs, AugmentPoint(), BATCH)
    flow.reset_state()
    batches = iter(flow)
    try:
        return secs_of_batches(batches, num_images, num_procs)
    finally:
        batches.close()


class IndexedPoints:
    """The images as PyTorch wants them: an object with a length that is indexed."""

    def __init__(self, jpegs, length):
        self.jpegs, self.length, self.augment = jpegs, length, AugmentPoint()

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        number = index % len(self.jpegs)
        return self.augment([self.jpegs[number], number])


def secs_of_loader(jpegs, num_images, num_procs):
    """Return how long PyTorch's DataLoader takes, after its processes have begun."""
    loader_type = importlib.import_module("torch.utils.data").DataLoader
    points = IndexedPoints(jpegs, num_images + (2 * num_procs + 2) * BATCH)
    loader = loader_type(points, batch_size=BATCH, num_workers=num_procs)
    return secs_of_batches(iter(loader), num_images, num_procs)


def measure(num_images, rounds, num_procs):
    """Return images per second by way, and the ratios of tpack to the others."""
    jpegs, samples = make_jpegs(DISTINCT), Samples()
    ways = {
        LOOP: lambda: secs_of_loop(jpegs, num_images),
        FLOW: lambda: secs_of_flow(jpegs, num_images),
        LOOPS: lambda: secs_of_loops(jpegs, num_images, num_procs),
        RUNNER: lambda: secs_of_runner(jpegs, num_images, num_procs),
    }
    if importlib.util.find_spec("torch"):
        ways[LOADER] = lambda: secs_of_loader(jpegs, num_images, num_procs)
    for _ in range(rounds):
        for name, way in ways.items():
            samples.add(name, way())
    others = [name for name in (LOOPS, LOADER) if name in ways]
    return {
        "jpeg_bytes": int(np.mean([len(jpeg) for jpeg in jpegs])),
        "images": num_images,
        "processes": num_procs,
        "images_per_sec": {name: num_images / samples.median(name) for name in ways},
        "ratios": {
            f"{FLOW} / {LOOP}": samples.ratio(LOOP, FLOW),
            **{f"{RUNNER} / {other}": samples.ratio(other, RUNNER) for other in others},
        },
        "secs": samples.figures(),
    }


def report(num_images, rounds, num_procs):
    """Measure with whole batches for each process; print the tables and return the figures."""
    whole = BATCH * num_procs
    figures = measure(max(num_images // whole, 1) * whole, rounds, num_procs)
    print_table("images per second", ("way", "images/s"), figures["images_per_sec"].items())
    print_table("ratios of images per second", ("ratio", ""), figures["ratios"].items())
    return figures


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--images", type=int, default=4000, help="images of a round; whole batches for each process")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--procs", type=int, default=len(os.sched_getaffinity(0)), help="processes; all cores if left out"
    )
    args = parser.parse_args()
    write_json(args.out, report(args.images, args.rounds, args.procs))


if __name__ == "__main__":
    main()
