"""ImageNet in the ways that the field reads it: file by file, in threads or processes, or from one LMDB file."""

import argparse

import cv2
import numpy as np

from tpack.dataflow import (
    AugmentImageComponent,
    BatchData,
    FixedSizeData,
    LMDBSerializer,
    LocallyShuffleData,
    MapDataComponent,
    MultiProcessMapData,
    MultiProcessRunnerZMQ,
    MultiThreadMapData,
    PrintData,
    RepeatedData,
    TestDataSpeed,
    dataset,
    imgaug,
)
from tpack.utils import logger
from tpack.utils.fs import get_dataset_path

WAYS = ("plain", "threads", "processes", "lmdb")


class BinaryILSVRC12(dataset.ILSVRC12Files):
    """Yields what is in the files, not decoded."""

    def _read(self, index):
        path, label = super()._read(index)
        return [np.fromfile(path, np.uint8), label]


def fbresnet_augmentor(isTrain, size, mean=None):
    """What the field does to photographs, for training and for validation."""
    if isTrain:
        augmentors = [
            imgaug.GoogleNetRandomCropAndResize(target_shape=size),
            imgaug.RandomOrderAug(
                [
                    imgaug.BrightnessScale((0.6, 1.4), clip=False),
                    imgaug.Contrast((0.6, 1.4), rgb=False, clip=False),
                    imgaug.Saturation(0.4, rgb=False),
                    imgaug.Lighting(
                        0.1,
                        eigval=np.asarray([0.2175, 0.0188, 0.0045][::-1]) * 255.0,
                        eigvec=np.array(
                            [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
                        )[::-1, ::-1],
                    ),
                ]
            ),
            imgaug.Flip(horiz=True),
        ]
    else:
        augmentors = [imgaug.ResizeShortestEdge(size * 8 // 7, cv2.INTER_CUBIC), imgaug.CenterCrop((size, size))]
    return augmentors if mean is None else [*augmentors, imgaug.MapImage(lambda x: x - mean)]


def convert(directory, meta, part, path):
    """Write the files of a part, as they are, into one LMDB file."""
    ds = BinaryILSVRC12(directory, part, meta_dir=meta, shuffle=False)
    LMDBSerializer.save(MultiProcessRunnerZMQ(ds, num_proc=1), path)


def get_data(way, part, args):
    """Batches of images and classes."""
    isTrain = part == "train"
    mean = dataset.ILSVRCMeta(args.meta).get_per_pixel_mean((args.size, args.size)) if args.subtract_mean else None
    augmentors = fbresnet_augmentor(isTrain, args.size, mean)

    if way in ("threads", "processes"):
        augs = imgaug.AugmentorList(augmentors)

        def read(dp):
            fname, label = dp
            return [augs.augment(cv2.imread(fname, cv2.IMREAD_COLOR)), label]

        ds = dataset.ILSVRC12Files(args.data, part, meta_dir=args.meta, shuffle=isTrain)
        Map = {"threads": MultiThreadMapData, "processes": MultiProcessMapData}[way]
        ds = Map(ds, 2 if way == "threads" else 1, read, buffer_size=8, strict=not isTrain)
    elif way == "lmdb":
        ds = LMDBSerializer.load(f"{args.lmdb}-{part}.lmdb", shuffle=False)
        ds = FixedSizeData(LocallyShuffleData(ds, 8), len(ds)) if isTrain else ds
        ds = MapDataComponent(ds, lambda content: cv2.imdecode(content, cv2.IMREAD_COLOR), 0)
        ds = AugmentImageComponent(ds, augmentors, copy=False)
    else:
        ds = dataset.ILSVRC12(args.data, part, meta_dir=args.meta, shuffle=isTrain)
        ds = AugmentImageComponent(ds, augmentors, copy=False)
    return PrintData(BatchData(ds, args.batch, remainder=not isTrain), name=f"{part} by {way}")


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["convert", "speed", "read"])
    parser.add_argument("--data", default=get_dataset_path("ilsvrc12"))
    parser.add_argument("--meta")
    parser.add_argument("--lmdb", default="ilsvrc12", help="where the LMDB files are, without -train.lmdb")
    parser.add_argument("--part", choices=["train", "val"], default="train")
    parser.add_argument("--way", choices=WAYS, default="plain")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--subtract-mean", action="store_true")
    args = parser.parse_args(argv)
    if args.command == "convert":
        return convert(args.data, args.meta, args.part, f"{args.lmdb}-{args.part}.lmdb")
    ds = get_data(args.way, args.part, args)
    if args.command == "speed":
        logger.auto_set_dir(name=f"speed-{args.way}")
        return TestDataSpeed(RepeatedData(ds, -1), size=20).start()
    ds.reset_state()
    words = dataset.ILSVRCMeta(args.meta).get_synset_words_1000()
    return [(images, [words[int(label)] for label in labels]) for images, labels in ds]


if __name__ == "__main__":
    main()
