"""Programs that train with tensorpack, of papers and of its own collections. See `tests.trials.outside_recipe`.

They say ``import tensorpack`` and get tpack. What an owner has to change besides stands here: the question whether
there is a GPU, and state of modules that a script sets before it starts workers, which are new interpreters.
"""

from tests.trials.outside_data import cifar, folders, idx_digits, images, text, texts_in_pictures, tones
from tests.trials.outside_recipe import Edit, Recipe

TABULAR = """import numpy as np
import pandas as pd
from tgan.model import TGANModel
rng = np.random.RandomState(0)
table = pd.DataFrame({0: rng.normal(size=400), 1: rng.choice(list("abc"), 400), 2: rng.normal(3, 2, 400)})
sizes = dict(num_gen_rnn=20, num_gen_feature=20, num_dis_hidden=20)
model = TGANModel([0, 2], output="out", max_epoch=2, steps_per_epoch=3, batch_size=20, **sizes)
model.fit(table)
assert model.sample(20).shape == (20, 3)
"""

NO_GPU = r"assert tf\.test\.is_gpu_available\(\)"
# Today's librosa takes these by name only.
LIBROSA = (
    Edit("*.py", r"(util\.fix_length\(\w+), (\w+)", r"\1, size=\2", "librosa"),
    Edit("*.py", r"(filters\.mel\()([\w.]+), ([\w.]+), ([\w.]+)", r"\1sr=\2, n_fft=\3, n_mels=\4", "librosa"),
    Edit("*.py", r"librosa\.filters\.dct\(([\w.]+), ([\w.\[\]]+)\)", r"cosines(\1, \2)", "librosa"),
    Edit("*.py", r"^import librosa$", "import librosa\nfrom cosines import cosines", "librosa"),
    Edit("hparam.py", r"yaml\.load_all", "yaml.safe_load_all", "PyYAML"),
)
COSINES = """import numpy as np
import scipy.fft
def cosines(num, size): return scipy.fft.dct(np.eye(size), norm="ortho", axis=0)[:num]
"""
SOUND_STAND_INS = (text("cosines.py", COSINES), text("pydub.py", "AudioSegment = None\n"), text("tfplot.py", ""))
# A worker is a new interpreter, which has of a module what its import makes.
HYPER_PARAMETERS = Edit(
    "hparam.py", r"^hparam = Hparam\(\)$", "hparam = Hparam()\nhparam.set_hparam_yaml('default')", "workers"
)


def one_epoch_of(path: str, steps: str, epochs: str) -> tuple[Edit, ...]:
    """Return edits that make epochs of three steps, and two of them, where the patterns stand in the file."""
    return (Edit(path, steps, "steps_per_epoch=3"), Edit(path, epochs, "max_epoch=2"))


CLASSIFIERS = (
    Recipe(
        "YixuanLi/densenet-tensorflow",
        "DenseNet on CIFAR-10, by SyncMultiGPUTrainer",
        "cifar10-densenet.py --gpu 0",
        steps=6,
        data=(cifar(),),
        edits=(
            Edit("cifar10-densenet.py", r"BATCH_SIZE = 64", "BATCH_SIZE = 16"),
            Edit("cifar10-densenet.py", r"default=40", "default=10"),
            *one_epoch_of("cifar10-densenet.py", r"steps_per_epoch=steps_per_epoch", r"max_epoch=args\.max_epoch"),
        ),
    ),
    Recipe(
        "microsoft/LQ-Nets",
        "VGG-small on CIFAR-10 with learned quantization of weights and activations",
        "cifar10-vgg-small.py --qw 1 --qa 2",
        steps=6,
        commit="4f3ea9b52b40",
        data=(cifar(),),
        edits=(
            Edit("cifar10-vgg-small.py", r"BATCH_SIZE = 100", "BATCH_SIZE = 8"),
            Edit("cifar10-vgg-small.py", r"max_epoch=400", "steps_per_epoch=3, max_epoch=2"),
            Edit("cifar10-vgg-small.py", r"= get_data\('test'\)", "= FixedSizeData(get_data('test'), 2)"),
            Edit("cifar10-vgg-small.py", NO_GPU, "pass", "no GPU"),
            Edit("learned_quantization.py", r"in_channel / split", "in_channel // split", "Python 2"),
        ),
    ),
    Recipe(
        "ppwwyyxx/GroupNorm-reproduce",
        "ResNet on CIFAR-10 with group normalization",
        "cifar10-resnet-gn.py -n 2",
        folder="Cifar10-ResNet-TensorFlow",
        steps=6,
        commit="883f694b5589",
        data=(cifar(),),
        edits=(
            Edit("Cifar10*/cifar10-resnet-gn.py", r"BATCH_SIZE = 128", "BATCH_SIZE = 8"),
            Edit("Cifar10*/cifar10-resnet-gn.py", r"max_epoch=400", "steps_per_epoch=3, max_epoch=2"),
            Edit("Cifar10*/cifar10-resnet-gn.py", NO_GPU, "pass", "no GPU"),
        ),
    ),
    Recipe(
        "HongyangGao/ChannelNets",
        "ChannelNets, a small MobileNet, on two towers",
        "main.py",
        steps=6,
        commit="20bd062225f7",
        edits=(
            # It looks at its flags before they are parsed.
            Edit("main.py", r"'fake', False", "'fake', True"),
            Edit("main.py", r"'1,2,3,4'", "''", "no GPU"),
            Edit("tensor_net.py", r"max\(get_nr_gpu\(\), 1\)", "2", "no GPU"),
            Edit("tensor_net.py", r"\[64, 224, 224, 3\], \[64\]", "[2, 224, 224, 3], [2]"),
            *one_epoch_of("tensor_net.py", r"steps_per_epoch=5000", r"max_epoch=80"),
        ),
    ),
    Recipe(
        "ksellesk/darknet53-tensorpack",
        "Darknet-53 with quantized weights",
        "imagenet-darknet.py --fake --batch 2 --quant",
        steps=6,
        commit="b7ed3e3ae694",
        edits=one_epoch_of("imagenet-darknet.py", r"steps_per_epoch=100 if.*batch(?=,)", r"max_epoch=105"),
    ),
    Recipe(
        "tensorpack/benchmarks",
        "a CIFAR-10 benchmark of Keras' example",
        "tensorpack.cifar10.py",
        folder="other-wrappers",
        steps=6,
        commit="7c97174f9a00",
        data=(cifar(),),
        edits=(Edit("other-wrappers/tensorpack.cifar10.py", r"max_epoch=200", "steps_per_epoch=3, max_epoch=2"),),
    ),
    Recipe(
        "wanggrun/Adaptively-Connected-Neural-Networks",
        "ResNet-18 whose pixels choose their connections",
        "imagenet-resnet.py --fake --batch 2 -d 18",
        folder="cnn/pixel-aware",
        commit="e27066ef5230",
        steps=6,
        edits=one_epoch_of("cnn/pixel*/imagenet-resnet.py", r"steps_per_epoch=100 if.*batch(?=,)", "max_epoch=120"),
    ),
    Recipe(
        "dongzhuoyao/tensorpack",
        "the example of digits of tensorpack's earlier versions",
        "mnist-convnet.py",
        folder="examples",
        steps=6,
        commit="78bcf6053172",
        data=(idx_digits("datasets/mnist_data", ending=".gz"),),
        edits=one_epoch_of("examples/mnist-convnet.py", r"steps_per_epoch=steps_per_epoch", r"max_epoch=100"),
    ),
    Recipe(
        "facebookresearch/ImageNet-Adversarial-Training",
        "ResNet-50 against an attack in a while loop",
        "main.py --fake --batch 2 --attack-iter 2",
        commit="1ad68f08b853",
        steps=6,
        edits=(
            Edit("main.py", r"224, 224, 3\], \[batch", "64, 64, 3], [batch"),
            Edit("third_party/imagenet_utils.py", r"image_shape = 224", "image_shape = 64"),
            Edit("main.py", r"steps_per_epoch = 50", "steps_per_epoch = 3"),
            Edit("main.py", r"max_epoch = 110", "max_epoch = 2"),
        ),
        seconds=420,
    ),
    Recipe(
        "ppwwyyxx/moco.tensorflow",
        "momentum contrast of two ResNet-50, one of them compiled by XLA",
        "main_moco.py --fake --batch 4 --v2",
        commit="e3050d425609",
        steps=6,
        edits=(
            Edit("main_moco.py", r"image_shape = 224", "image_shape = 32"),
            Edit("main_moco.py", r"queue_size = 65536", "queue_size = 64"),
            *one_epoch_of("main_moco.py", r"steps_per_epoch=100 if.*batch(?=,)", "max_epoch=200"),
        ),
        seconds=420,
    ),
)

GENERATORS = (
    Recipe(
        "sdv-dev/TGAN",
        "a GAN of tables, and samples of it",
        "tabular.py",
        steps=6,
        commit="d5037dd4605f",
        python_path=(".",),
        data=(text("tabular.py", TABULAR),),
    ),
    Recipe(
        "tmquan/RefineGAN",
        "GANs that complete pictures of magnetic resonance",
        "exp_dset_RefineGAN_mask_strategy_rate.py --imageDir data/train --labelDir data/train --maskDir data/masks",
        commit="a5222b3517eb",
        steps=12,
        data=tuple(images(f"data/{kind}/{{}}.png", 4, (64, 64), channels=1) for kind in ("train", "valid", "masks")),
        edits=(
            Edit("RefineGAN.py", r"^from .*\.nets import resnet_v2$", "", "an import that is not used"),
            Edit("Utils.py", r"^(DIM[XY] *)= 256", r"\1= 64"),
            Edit("Utils.py", r"^NB_FILTERS = 64", "NB_FILTERS = 8"),
            Edit("Utils.py", r"^EPOCH_SIZE = 100", "EPOCH_SIZE = 3"),
            Edit("RefineGAN.py", r"max_epoch=500", "max_epoch=2"),
        ),
        seconds=600,
    ),
    Recipe(
        "brownvc/ganimorph",
        "GANs that change shapes",
        "main.py --data pictures",
        steps=6,
        commit="be7ddf91a9de",
        data=tuple(
            images(f"pictures/{side}/{{}}.png", 4, (150, 150)) for side in ("trainA", "trainB", "testA", "testB")
        ),
        edits=(
            Edit("*.py", r"^(TEST_)?BATCH = \d+", r"\1BATCH = 2"),
            Edit("*.py", r"^NF = 64", "NF = 4"),
            Edit("model.py", r"subDepth = 3", "subDepth = 1"),
            Edit("main.py", r"steps_per_epoch=1000", "steps_per_epoch=3, max_epoch=2"),
        ),
        seconds=420,
    ),
)

SOUNDS_AND_TEXTS = (
    *(
        Recipe(
            "andabi/deep-voice-conversion",
            trains,
            command,
            part=command.split(".")[0],
            steps=6,
            commit="983c275d669e",
            data=(
                tones("sounds/{}.wav", 4),
                *(text(f"sounds/{n}.PHN", ["0 4000 h#", "4000 9000 aa", "9000 16000 s"]) for n in range(4)),
                *SOUND_STAND_INS,
            ),
            edits=(
                *LIBROSA,
                Edit("hparams/default.yaml", r"data_path: .*", "data_path: 'sounds/*.wav'"),
                Edit("hparams/default.yaml", r"logdir_path: .*", "logdir_path: 'out'"),
                Edit("hparams/default.yaml", r"batch_size: 32", "batch_size: 4"),
                Edit("hparams/default.yaml", r"hidden_units: \d+", "hidden_units: 16"),
                Edit("hparams/default.yaml", r"num_(banks|highway_blocks): \d+", r"num_\1: 2"),
                Edit("hparams/default.yaml", r"steps_per_epoch: 100", "steps_per_epoch: 3"),
                Edit("hparams/default.yaml", r"num_epochs: \d+", "num_epochs: 2"),
                Edit("hparams/default.yaml", r"num_gpu: \d", "num_gpu: 2", "no GPU"),
                Edit("train?.py", r"n_prefetch=1000, n_thread=4", "n_prefetch=10, n_thread=1"),
                Edit("train1.py", r"args\.case1, args\.case", "args.case", "a name that is not there"),
                HYPER_PARAMETERS,
            ),
        )
        for trains, command in (
            ("phonemes of sounds, two towers", "train1.py default"),
            ("sounds of phonemes, two towers, gradients filtered and clipped", "train2.py default default"),
        )
    ),
    Recipe(
        "andabi/voice-vector",
        "embeddings of voices",
        "train.py default",
        steps=6,
        commit="6a9f7f98a0a8",
        data=(*(tones(f"sounds/{name}/{{}}.wav", 2) for name in "abc"), *SOUND_STAND_INS),
        edits=(
            *LIBROSA,
            Edit("hparams/default.yaml", r"data_path: .*", "data_path: 'sounds'"),
            Edit("hparams/default.yaml", r"logdir_path: .*", "logdir_path: 'out'"),
            Edit("hparams/default.yaml", r"batch_size: 128", "batch_size: 4"),
            Edit("hparams/default.yaml", r"hidden_units: 128", "hidden_units: 16"),
            Edit("hparams/default.yaml", r"steps_per_epoch: 100", "steps_per_epoch: 3"),
            Edit("train.py", r"FlexibleQueueInput\(df, capacity=500\)", "QueueInput(df)", "a queue's inner parts"),
            Edit("train.py", r"^from tensorpack_extension.*", "from tpack import QueueInput", "a queue's inner parts"),
            HYPER_PARAMETERS,
        ),
    ),
    Recipe(
        "zhang0jhon/AttentionOCR",
        "Inception-v4 in slim with attention that reads texts, two towers",
        "train.py",
        commit="0912a3cc3b65",
        steps=6,
        data=(texts_in_pictures("icdar_datasets.npy", "pictures", 8, length=5), folders("checkpoint")),
        edits=(
            Edit("config.py", r"^gpus = .*", "gpus = [0, 1]", "no GPU"),
            Edit("train.py", r"^ +GPU(Memory|Utilization)Tracker\(\),?$", "", "no GPU"),
            Edit("train.py", r"session_init = SaverRestoreRelaxed.*", "session_init = None", "weights"),
            Edit("config.py", r"^seq_len = 32", "seq_len = 4"),
            Edit("config.py", r"^wemb_size = 256", "wemb_size = 16"),
            Edit("config.py", r"^lstm_size = 512", "lstm_size = 16"),
            Edit("config.py", r"^(image_size|crop_min_size) = (\d+)", r"\1 = \2 - 128"),
            Edit("config.py", r"^batch_size = 10", "batch_size = 2"),
            Edit("config.py", r"^num_threads = 16", "num_threads = 2"),
            Edit("config.py", r"^steps_per_epoch = 500", "steps_per_epoch = 3"),
            Edit("config.py", r"^num_epochs = 1000", "num_epochs = 2"),
        ),
        seconds=600,
    ),
)

RECIPES = (*CLASSIFIERS, *GENERATORS, *SOUNDS_AND_TEXTS)
