"""The 80 cases of `tests.trials.tensorpack_programs`: programs of tensorpack's ``examples``, with their arguments.

A case is a program and one of its tasks: training, prediction, export, or making data. Edits make models and batches
small; ``own`` marks those of a program that does not run as it is, with any version of tensorpack. No line of
tensorpack's is here but what an edit looks for.

`BROKEN` are six more, which stop with tensorpack 0.11 and TensorFlow 1.15 as well, each by an error of the program.
"""

from dataclasses import dataclass

import numpy as np

from tests.trials import tensorpack_data as data
from tests.trials.outside_data import Maker, cifar, idx_digits, images, sentences, text
from tests.trials.outside_recipe import Edit


@dataclass(frozen=True)
class Case:
    """One program and its arguments.

    Args:
        name: the folder below ``examples``, a slash, and a name for the case.
        command: the program and its arguments.
        steps: the least number of training steps; 0 if the program only has to end.
        data: makers for the folder of the case.
        shared: names of `SHARED`, data sets that several cases read.
        edits: changes of sizes, in the migrated files.
        before: programs and arguments, run first in the same way.
        gpus: the number of GPUs that the program reads.
        seconds: the limit for each command.
    """

    name: str
    command: str
    steps: int = 0
    data: tuple[Maker, ...] = ()
    shared: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    before: tuple[str, ...] = ()
    gpus: int = 0
    seconds: float = 240

    @property
    def folder(self) -> str:
        """The folder of the program, below ``examples``."""
        return self.name.partition("/")[0]


SHARED: dict[str, Maker] = {
    "mnist": idx_digits("datasets/mnist_data"),
    "cifar10": cifar(),
    "cifar100": data.cifar100(),
    "svhn": data.house_numbers(),
    "edges": data.edges(2),
    "imagenet": data.photographs(8),
    "words": data.tree_bank(),
}
"""Data sets below one ``datasets``, by name."""

WEIGHTS = data.weights()
FACES = images("faces/{}.jpg", 8, (96, 96))
_MNIST, _IMAGENET = ("mnist",), ("imagenet",)


def _train(name: str, command: str, **more: object) -> Case:
    return Case(name, command, steps=4, **more)  # type: ignore[arg-type]


def _size(path: str, pattern: str, replacement: str) -> Edit:
    return Edit(path, pattern, replacement)


GAMES = (
    _train(
        "A3C-Gym/train",
        "train-atari.py --env Breakout-v0",
        edits=(_size("train-atari.py", r"BATCH_SIZE = 128", "BATCH_SIZE = 8"),),
        gpus=1,
    ),
    Case("A3C-Gym/play", "train-atari.py --task play --env B-v0 --load weights.npz --episode 2", data=(WEIGHTS,)),
    Case("A3C-Gym/eval", "train-atari.py --task eval --env B-v0 --load weights.npz --episode 2", data=(WEIGHTS,)),
    *(
        _train(
            f"DeepQNetwork/train {algorithm}",
            f"DQN.py --env Breakout-v0 --algo {algorithm}",
            edits=(
                _size("DQN.py", r"MEMORY_SIZE = 1e6", "MEMORY_SIZE = 2000"),
                _size("DQN.py", r"BATCH_SIZE = 64", "BATCH_SIZE = 4"),
            ),
        )
        for algorithm in ("Double", "Dueling", "DQN")
    ),
    Case(
        "DeepQNetwork/play",
        "DQN.py --env Breakout-v0 --task play --load weights.npz",
        data=(WEIGHTS,),
        edits=(_size("DQN.py", r"pred, 100, render", "pred, 2, render"),),
    ),
)

SEQUENCES = (
    Case("CTC-TIMIT/build", "create-lmdb.py build --dataset timit --db train.mdb", data=data.sounds(4)),
    Case(
        "CTC-TIMIT/stat",
        "create-lmdb.py stat --db train.mdb",
        data=data.sounds(4),
        before=("create-lmdb.py build --dataset timit --db train.mdb",),
    ),
    _train(
        "CTC-TIMIT/train",
        "train-timit.py --train train.mdb --test test.mdb",
        data=(data.older_points("train.mdb", 16), data.older_points("test.mdb", 8)),
        edits=(_size("train-timit.py", r"BATCH = 64", "BATCH = 4"),),
    ),
    _train(
        "Char-RNN/train",
        "char-rnn.py train --corpus corpus.txt",
        data=(sentences("corpus.txt", 80),),
        edits=(_size("char-rnn.py", r"batch_size = 128", "batch_size = 8"),),
    ),
    Case(
        "Char-RNN/sample",
        "char-rnn.py --load train_log/char-rnn/checkpoint sample -n 5 -s ba",
        data=(sentences("corpus.txt", 80),),
        edits=(
            _size("char-rnn.py", r"batch_size = 128", "batch_size = 8"),
            # The sampling knows no corpus.
            Edit("char-rnn.py", r"param\.corpus = None", "param.corpus = 'corpus.txt'", "own"),
        ),
        before=("char-rnn.py train --corpus corpus.txt",),
    ),
    _train("PennTreebank/train", "PTB-LSTM.py", shared=("words",), seconds=360),
)

CAFFE = tuple(
    Case(
        f"CaffeModels/{model}",
        f"load-{model}.py --load weights.npz --input cat.png",
        data=(WEIGHTS, data.picture("cat.png", (300, 300))),
        shared=_IMAGENET,
    )
    for model in ("alexnet", "cpm", "vgg16", "vgg19")
)
QUANTIZED = (
    _train(
        "DoReFa-Net/alexnet",
        "alexnet-dorefa.py --dorefa 1,2,6 --data DATASETS/imagenet",
        shared=_IMAGENET,
        edits=(_size("alexnet-dorefa.py", r"TOTAL_BATCH_SIZE = 256", "TOTAL_BATCH_SIZE = 4"),),
    ),
    Case(
        "DoReFa-Net/alexnet run",
        "alexnet-dorefa.py --dorefa 1,2,6 --load weights.npz --run cat.png",
        data=(WEIGHTS, data.picture("cat.png", (300, 300))),
        shared=_IMAGENET,
    ),
    Case(
        "DoReFa-Net/resnet eval",
        "resnet-dorefa.py --load weights.npz --eval --data DATASETS/imagenet",
        data=(WEIGHTS,),
        shared=_IMAGENET,
    ),
    _train(
        "DoReFa-Net/svhn",
        "svhn-digit-dorefa.py",
        shared=("svhn",),
        edits=(_size("svhn-digit-dorefa.py", r"data_train, 128", "data_train, 8"),),
    ),
)

IMAGES = (
    _train("DynamicFilterNetwork/train", "steering-filter.py --gpu 0", shared=("edges",)),
    _train(
        "HED/train",
        "hed.py",
        shared=("edges",),
        edits=(_size("hed.py", r"BatchDataByShape\(ds, 8", "BatchDataByShape(ds, 1"),),
        seconds=400,
    ),
    Case("HED/run", "hed.py --load weights.npz --run cat.jpg", data=(WEIGHTS, data.picture("cat.jpg", (96, 64)))),
    *(
        Case(
            f"OpticalFlow/{model}",
            f"flownet2.py --load weights.npz --model {model} --images 0.png 1.png",
            data=(WEIGHTS, images("{}.png", 2, (128, 64))),
            seconds=400,
        )
        for model in ("flownet2", "flownet2-s", "flownet2-c")
    ),
    Case(
        "OpticalFlow/sintel",
        "flownet2.py --load weights.npz --model flownet2-s --sintel_path sintel",
        data=(WEIGHTS, data.flow_file("sintel", (128, 64))),
    ),
    Case(
        "SuperResolution/data",
        "data_sampler.py --create --input pictures.zip --lmdb pictures.lmdb",
        data=(data.zipped("pictures.zip", 4, (400, 390)),),
    ),
    _train(
        "SuperResolution/train",
        "enet-pat.py --vgg19 weights.npz --data pictures.zip",
        data=(data.zipped("pictures.zip", 16, (400, 390)), WEIGHTS),
        edits=(_size("enet-pat.py", r"BATCH_SIZE = 16", "BATCH_SIZE = 2"),),
        seconds=400,
    ),
    Case(
        "SuperResolution/apply",
        "enet-pat.py --apply --load weights.npz --lowres small.png",
        data=(WEIGHTS, data.picture("small.png", (24, 16))),
    ),
)

_SMALL = (
    "TRAIN.EVAL_PERIOD=0 DATA.NUM_WORKERS=1 "
    "PREPROC.TRAIN_SHORT_EDGE_SIZE=[96,96] PREPROC.TEST_SHORT_EDGE_SIZE=96 PREPROC.MAX_SIZE=128 "
    "RPN.TRAIN_PRE_NMS_TOPK=64 RPN.TRAIN_POST_NMS_TOPK=32 RPN.TRAIN_PER_LEVEL_NMS_TOPK=16 FRCNN.BATCH_PER_IM=16 "
    "RPN.TEST_PRE_NMS_TOPK=64 RPN.TEST_POST_NMS_TOPK=16 RPN.TEST_PER_LEVEL_NMS_TOPK=16"
)
_BALLOONS = f"--config DATA.BASEDIR=balloon DATA.TRAIN=('balloon_train',) DATA.VAL=('balloon_val',) {_SMALL}"
_DETECTION = {"data": (data.balloons(4), WEIGHTS), "gpus": 1, "seconds": 400}
DETECTORS = (
    _train(
        "FasterRCNN/train",
        f"train.py {_BALLOONS} MODE_FPN=False MODE_MASK=False BACKBONE.WEIGHTS=weights.npz",
        **_DETECTION,
    ),
    _train(
        "FasterRCNN/train FPN",
        f"train.py {_BALLOONS} MODE_FPN=True MODE_MASK=True BACKBONE.WEIGHTS=weights.npz",
        **_DETECTION,
    ),
    Case(
        "FasterRCNN/predict",
        f"predict.py --load weights.npz --predict balloon/val/0.jpg {_BALLOONS} MODE_FPN=True MODE_MASK=False",
        **_DETECTION,
    ),
    Case(
        "FasterRCNN/export",
        f"predict.py --load weights.npz --output-pb out.pb {_BALLOONS} MODE_FPN=True MODE_MASK=True",
        **_DETECTION,
    ),
)

_NARROW = tuple(_size(f"{name}.py", r"^NF = 64", "NF = 4") for name in ("BEGAN", "CycleGAN", "DiscoGAN-CelebA"))
_BOTH_SIDES = tuple(images(f"pictures/{side}/{{}}.jpg", 4, (96, 96)) for side in ("trainA", "trainB", "testA", "testB"))
GENERATORS = (
    _train("GAN/BEGAN", "BEGAN.py --data faces --batch 4", data=(FACES,), edits=_NARROW[:1]),
    _train(
        "GAN/CycleGAN",
        "CycleGAN.py --data pictures",
        data=_BOTH_SIDES,
        edits=(
            _size("CycleGAN.py", r"SHAPE = 256", "SHAPE = 64"),
            _size("CycleGAN.py", r"TEST_BATCH = 32", "TEST_BATCH = 2"),
            _NARROW[1],
        ),
    ),
    _train("GAN/DCGAN", "DCGAN.py --data faces --batch 4", data=(FACES,)),
    Case("GAN/DCGAN sample", "DCGAN.py --sample --load weights.npz", data=(WEIGHTS,)),
    _train(
        "GAN/DiscoGAN",
        "DiscoGAN-CelebA.py --data faces",
        data=(data.celebrities(16),),
        edits=(_size("DiscoGAN-CelebA.py", r"BATCH = 64", "BATCH = 4"), _NARROW[2]),
        gpus=1,
    ),
    _train(
        "GAN/Image2Image",
        "Image2Image.py --data pairs",
        data=(images("pairs/{}.jpg", 4, (128, 64)),),
        edits=(_size("Image2Image.py", r"^NF = 64", "NF = 4"),),
    ),
    _train("GAN/Improved-WGAN", "Improved-WGAN.py --data faces --batch 4", data=(FACES,)),
    _train("GAN/InfoGAN", "InfoGAN-mnist.py", shared=_MNIST),
    *(
        Case(f"GAN/{name} sample", f"{program}.py --sample --load weights.npz", data=(WEIGHTS,))
        for name, program in (("BEGAN", "BEGAN"), ("InfoGAN", "InfoGAN-mnist"))
    ),
    _train("GAN/WGAN", "WGAN.py --data faces --batch 4", data=(FACES,)),
)

_PHOTOS = "--data DATASETS/imagenet"
CLASSIFIERS = (
    _train("ImageNetModels/alexnet", f"alexnet.py {_PHOTOS} --batch 2", shared=_IMAGENET),
    _train(
        "ImageNetModels/inception-bn",
        f"inception-bn.py {_PHOTOS}",
        shared=_IMAGENET,
        edits=(_size("inception-bn.py", r"TOTAL_BATCH_SIZE = 64 \* 6", "TOTAL_BATCH_SIZE = 6"),),
        gpus=6,
        seconds=500,
    ),
    _train("ImageNetModels/shufflenet", f"shufflenet.py {_PHOTOS} --batch 4", shared=_IMAGENET),
    _train("ImageNetModels/shufflenet v2", f"shufflenet.py {_PHOTOS} --batch 4 --v2", shared=_IMAGENET),
    Case("ImageNetModels/shufflenet flops", "shufflenet.py --flops"),
    _train(
        "ImageNetModels/vgg16",
        f"vgg16.py {_PHOTOS} --batch 2 --norm bn",
        shared=_IMAGENET,
        edits=(_size("vgg16.py", r"assert total_batch >= 256", "assert total_batch >= 2"),),
        seconds=400,
    ),
    _train("ResNet/cifar10", "cifar10-resnet.py -n 1", shared=("cifar10",), gpus=1),
    _train(
        "ResNet/preact18",
        "cifar10-preact18-mixup.py --mixup",
        shared=("cifar10",),
        edits=(_size("cifar10-preact18-mixup.py", r"BATCH_SIZE = 128", "BATCH_SIZE = 8"),),
        gpus=1,
    ),
    _train("ResNet/imagenet", f"imagenet-resnet.py {_PHOTOS} -d 18 --batch 2", shared=_IMAGENET),
    _train("ResNet/imagenet fake", "imagenet-resnet.py --fake -d 18 --batch 2"),
    _train("ResNet/imagenet preact", "imagenet-resnet.py --fake -d 18 --batch 2 --mode preact"),
    _train("ResNet/imagenet symbolic", f"imagenet-resnet.py {_PHOTOS} --symbolic -d 18 --batch 2", shared=_IMAGENET),
    Case(
        "ResNet/imagenet eval",
        f"imagenet-resnet.py --eval {_PHOTOS} -d 18 --load weights.npz",
        data=(WEIGHTS,),
        shared=_IMAGENET,
    ),
    Case(
        "ResNet/load",
        "load-resnet.py --load caffe.npz -d 50 --input cat.png",
        data=(
            data.weights("caffe.npz", **{"conv1/W": np.zeros((7, 7, 3, 64), np.float32)}),
            data.picture("cat.png", (300, 300)),
        ),
        shared=_IMAGENET,
    ),
    Case(
        "ResNet/convert",
        "load-resnet.py --load caffe.npz -d 50 --convert out.npz",
        data=(data.weights("caffe.npz", **{"conv1/W": np.zeros((7, 7, 3, 64), np.float32)}),),
    ),
    Case(
        "Saliency/maps",
        "saliency-maps.py cat.jpg",
        data=(data.picture("cat.jpg", (224, 224)), data.older_checkpoint("resnet_v1_50.ckpt")),
    ),
)

_CENTER = "mnist-embeddings.py -a center"
EMBEDDINGS = (
    *(
        _train(f"SimilarityLearning/{algorithm}", f"mnist-embeddings.py -a {algorithm}", shared=_MNIST)
        for algorithm in ("siamese", "cosine", "triplet", "softtriplet", "center")
    ),
    Case(
        "SimilarityLearning/visualize",
        f"{_CENTER} --visualize --load trained/checkpoint",
        data=(text("keep.py", "import glob, os\nos.rename(glob.glob('train_log/*')[0], 'trained')\n"),),
        shared=_MNIST,
        before=(_CENTER, "keep.py"),
    ),
)

_SAVED = "train_log/export-model/checkpoint"
_EXPORTS = (_size("export-model.py", r"/tmp/", ""),)
_EXPORTED = {"edits": _EXPORTS, "data": (data.picture("lena.png", (256, 256)),), "before": ("export-model.py",)}
BASICS = (
    *(
        _train(
            f"basics/cifar{classes}",
            f"cifar-convnet.py --classnum {classes}",
            shared=(f"cifar{classes}",),
            edits=(_size("cifar-convnet.py", r"ds, 128", "ds, 8"),),
        )
        for classes in (10, 100)
    ),
    Case("basics/export-model", "export-model.py", steps=2, edits=_EXPORTS),
    *(
        Case(
            f"basics/export-model {kind}",
            f"export-model.py --export {kind} --load train_log/export-model/checkpoint",
            **more,
        )
        for kind, more in (("serving", _EXPORTED), ("compact", _EXPORTED))
    ),
    Case(
        "basics/export-model apply compact",
        "export-model.py --apply compact --load compact_graph.pb",
        edits=_EXPORTS,
        data=(data.picture("lena.png", (256, 256)),),
        before=("export-model.py", f"export-model.py --export compact --load {_SAVED}"),
    ),
    _train("basics/mnist-convnet", "mnist-convnet.py", shared=_MNIST),
    _train("basics/mnist-tflayers", "mnist-tflayers.py", shared=_MNIST),
    _train("basics/mnist-visualizations", "mnist-visualizations.py", shared=_MNIST),
    _train("basics/svhn", "svhn-digit-convnet.py", shared=("svhn",)),
    _train("keras/mnist-keras", "mnist-keras.py", shared=_MNIST),
    _train("keras/mnist-keras-v2", "mnist-keras-v2.py", shared=_MNIST),
)

CASES = (*GAMES, *SEQUENCES, *CAFFE, *QUANTIZED, *IMAGES, *DETECTORS, *GENERATORS, *CLASSIFIERS, *EMBEDDINGS, *BASICS)

BROKEN = (
    # A difference of float32 and int32, as the cost.
    _train("boilerplate.py/train", "boilerplate.py"),
    # A name that is nowhere.
    _train("SpatialTransformer/train", "mnist-addition.py", shared=_MNIST),
    # Maps of 28 and 14 pixels are joined.
    _train("GAN/conditional", "ConditionalGAN-mnist.py", shared=_MNIST),
    # A function of two arguments gets one.
    Case(
        "GAN/Image2Image sample",
        "Image2Image.py --sample --data pairs --load weights.npz",
        data=(images("pairs/{}.jpg", 12, (128, 64)), WEIGHTS),
        edits=(_size("Image2Image.py", r"^NF = 64", "NF = 4"),),
    ),
    # A list has no method of augmentors.
    Case(
        "DoReFa-Net/resnet run",
        "resnet-dorefa.py --load weights.npz --run cat.png",
        data=(WEIGHTS, data.picture("cat.png", (300, 300))),
        shared=_IMAGENET,
    ),
    # A name that its other file does not have.
    _train("Saliency/train", f"CAM-resnet.py {_PHOTOS}", shared=_IMAGENET, gpus=1),
)
"""Programs that stop by their own errors."""
