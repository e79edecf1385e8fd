"""Which programs of which repositories are run, on what data, and what an owner has to change besides import lines.

Commands ask for small models and few steps where the program has options for it; an `Edit` says what has none. No
line of theirs is here but what an edit looks for.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.trials.outside_data import (
    Maker,
    folders,
    idx_digits,
    images,
    rows,
    sentence_lines,
    sentences,
    text,
    values,
)


@dataclass(frozen=True)
class Edit:
    """A change in one file of a copy.

    Args:
        path: the file, below the folder; a glob pattern.
        pattern: a regular expression of what is replaced, wherever it stands.
        replacement: what stands there instead.
        why: under what the report counts it: "size" for what makes it small, or what took the old spelling away.
    """

    path: str
    pattern: str
    replacement: str
    why: str = "size"

    def apply(self, folder: Path) -> int:
        """Change the files of a copy, and return how many places were changed."""
        total = 0
        for path in sorted(folder.glob(self.path)):
            changed, number = re.subn(self.pattern, self.replacement, path.read_text(), flags=re.MULTILINE)
            path.write_text(changed)
            total += number
        if total == 0:
            raise LookupError(f"{self.path} has nothing like {self.pattern!r}")
        return total


@dataclass(frozen=True)
class Recipe:
    """What to run of a repository.

    Args:
        repository: the owner's name, a slash, and the name.
        trains: what it trains, in a few words.
        command: the script below `folder` and its arguments; ``-m`` and a module are possible.
        steps: how many steps are wanted; after three times as many the program is ended.
        part: what tells this recipe from others of the same repository.
        folder: the folder, below the copy, that the program is run in.
        data: what makes its data.
        edits: what is to be changed besides import lines.
        before: commands that are run first, in the same way, such as one that counts the words of the data.
        python_path: folders, below the copy, that modules are looked for in.
        seconds: how long all of it may take.
    """

    repository: str
    trains: str
    command: str
    steps: int = 10
    part: str = ""
    folder: str = "."
    data: tuple[Maker, ...] = ()
    edits: tuple[Edit, ...] = ()
    before: tuple[str, ...] = ()
    python_path: tuple[str, ...] = ()
    seconds: float = 300
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.repository}{self.part and ':'}{self.part}")


VOCABULARY = ["<unk>", "<s>", "</s>", *sorted({word for line in sentence_lines(400) for word in line.split()})]
NER_TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]

GENERATIVE = (
    Recipe(
        "carpedm20/DCGAN-tensorflow",
        "a GAN of faces",
        "main.py --dataset=faces --train --epoch=2 --batch_size=8 --input_height=64 --output_height=32 --sample_freq=4"
        " --ckpt_freq=4 --out_name=run",
        steps=12,
        data=(images("data/faces/{:03d}.jpg", 32, (64, 64)),),
    ),
    Recipe(
        "carpedm20/DCGAN-tensorflow",
        "a GAN of digits with labels",
        part="digits",
        command="main.py --dataset=mnist --train --epoch=1 --batch_size=16 --input_height=28 --output_height=28"
        " --sample_freq=4 --ckpt_freq=4 --out_name=run",
        steps=12,
        data=(idx_digits("data/mnist"),),
    ),
    *(
        Recipe(
            "hwalsuklee/tensorflow-generative-model-collections",
            f"{kind}, on digits",
            part=kind,
            command=f"main.py --dataset mnist --gan_type {kind} --epoch 1 --batch_size 64",
            steps=6,
            data=(idx_digits("data/mnist", ending=".gz"),),
        )
        for kind in ("GAN", "WGAN_GP", "infoGAN", "BEGAN", "VAE")
    ),
    Recipe(
        "xhujoy/CycleGAN-tensorflow",
        "CycleGAN",
        "main.py --dataset_dir=shapes --epoch 1 --load_size 72 --fine_size 64 --ngf 8 --ndf 8 --print_freq 4",
        steps=8,
        data=tuple(
            images(f"datasets/shapes/{kind}/{{:02d}}.jpg", 6, (72, 72))
            for kind in ("trainA", "trainB", "testA", "testB")
        ),
    ),
    Recipe(
        "affinelayer/pix2pix-tensorflow",
        "pix2pix",
        "pix2pix.py --mode train --output_dir out --max_epochs 1 --input_dir pairs --ngf 4 --ndf 4 --summary_freq 3"
        " --display_freq 3 --save_freq 3",
        steps=6,
        data=(images("pairs/{:02d}.png", 6, (512, 256)),),
    ),
    Recipe(
        "affinelayer/pix2pix-tensorflow",
        "pix2pix with separable convolutions",
        part="separable",
        command="pix2pix.py --mode train --output_dir out --max_epochs 1 --input_dir pairs --ngf 4 --ndf 4"
        " --separable_conv --batch_size 2",
        steps=3,
        data=(images("pairs/{:02d}.png", 6, (512, 256)),),
    ),
    Recipe(
        "taki0112/UGATIT",
        "U-GAT-IT",
        "main.py --phase train --light True --dataset shapes --epoch 1 --iteration 3 --ch 4 --img_size 64 --n_dis 4"
        " --print_freq 2 --save_freq 2",
        steps=6,
        data=tuple(
            images(f"dataset/shapes/{kind}/{{:02d}}.jpg", 6, (64, 64))
            for kind in ("trainA", "trainB", "testA", "testB")
        ),
    ),
)

LANGUAGE = (
    Recipe(
        "sherjilozair/char-rnn-tensorflow",
        "a language model of characters",
        "train.py --num_epochs 1 --rnn_size 16 --save_every 5",
        steps=12,
        edits=(Edit("data/tinyshakespeare/input.txt", r"(?s)\A(.{60000}).*", r"\1"),),
    ),
    *(
        Recipe(
            "sherjilozair/char-rnn-tensorflow",
            f"the same with {cell} cells",
            part=cell,
            command=f"train.py --num_epochs 1 --rnn_size 16 --save_every 5 --model {cell} --output_keep_prob 0.8",
            steps=12,
            edits=(Edit("data/tinyshakespeare/input.txt", r"(?s)\A(.{60000}).*", r"\1"),),
        )
        for cell in ("rnn", "gru", "nas")
    ),
    Recipe(
        "hzy46/Char-RNN-TensorFlow",
        "a language model of poems",
        "train.py --name poems --num_seqs 8 --num_steps 12 --lstm_size 16 --use_embedding --embedding_size 8"
        " --max_steps 12 --save_every_n 5 --input_file data/poetry.txt",
        steps=12,
        data=(folders("model"),),
    ),
    Recipe(
        "allenai/bilm-tf",
        "a bidirectional language model on two towers, as ELMo",
        "train.py",
        steps=10,
        folder=".",
        python_path=(".",),
        data=(
            text(
                "train.py",
                [
                    "from bilm.training import load_vocab, train",
                    "from bilm.data import BidirectionalLMDataset",
                    "vocab = load_vocab('tests/fixtures/train/vocab.txt', 10)",
                    "lstm = {'dim': 16, 'projection_dim': 8, 'n_layers': 2, 'cell_clip': 3, 'proj_clip': 3,",
                    "        'use_skip_connections': True}",
                    "char_cnn = {'n_characters': 261, 'max_characters_per_token': 10, 'filters': [[1, 8], [2, 8]],",
                    "            'activation': 'tanh', 'embedding': {'dim': 4}, 'n_highway': 1}",
                    "options = {'bidirectional': True, 'n_tokens_vocab': vocab.size, 'n_negative_samples_batch': 16,",
                    "           'n_train_tokens': 134, 'batch_size': 2, 'unroll_steps': 10, 'n_epochs': 5,",
                    "           'all_clip_norm_val': 1.0, 'dropout': 0.1, 'lstm': lstm, 'char_cnn': char_cnn}",
                    "data = BidirectionalLMDataset('tests/fixtures/train/data.txt', vocab, test=False)",
                    "train(options, data, 2, 'out', 'out')",
                ],
            ),
            folders("out"),
        ),
    ),
)

TAGGING = (
    Recipe(
        "guillaumegenthial/tf_ner",
        "LSTM and CRF in an Estimator",
        "main.py",
        folder="models/lstm_crf",
        steps=10,
        data=(values("data/example/glove.npz", {"embeddings": [[0.1] * 300] * 200}),),
    ),
    Recipe(
        "guillaumegenthial/sequence_tagging",
        "LSTM of words and characters, and CRF",
        "train.py",
        steps=6,
        before=("build_data.py",),
        data=(
            text(
                "data/test.txt",
                [
                    line
                    for block in sentence_lines(24)
                    for line in [f"{word} {NER_TAGS[len(word) % 5]}" for word in block.split()] + [""]
                ],
            ),
            text("data/glove.6B/glove.6B.300d.txt", [f"{word} {' '.join(['0.1'] * 300)}" for word in VOCABULARY]),
        ),
        edits=(Edit("model/config.py", r"nepochs\s*=\s*15", "nepochs = 3"),),
    ),
    Recipe(
        "cs230-stanford/cs230-code-examples",
        "LSTM tagger, on tables of words",
        "train.py",
        steps=6,
        part="tagger",
        folder="tensorflow/nlp",
        before=("build_vocab.py",),
        edits=(Edit("tensorflow/nlp/experiments/base_model/params.json", r'"batch_size": \d+', '"batch_size": 2'),),
    ),
    Recipe(
        "cs230-stanford/cs230-code-examples",
        "a classifier of images",
        "train.py --data_dir data",
        steps=6,
        part="vision",
        folder="tensorflow/vision",
        edits=(Edit("tensorflow/vision/experiments/base_model/params.json", r'"batch_size": \d+', '"batch_size": 4'),),
        data=tuple(
            images(f"tensorflow/vision/data/{kind}_signs/{label}_{{}}.jpg", 4, (64, 64))
            for kind in ("train", "dev")
            for label in range(6)
        ),
    ),
)

TRANSLATION = (
    Recipe(
        "Kyubyong/transformer",
        "a transformer that translates",
        "train.py --train1 data/a --train2 data/b --eval1 data/a --eval2 data/b --eval3 data/b --vocab data/vocab"
        " --batch_size 8 --d_model 16 --d_ff 32 --num_blocks 2 --num_heads 2 --num_epochs 1 --maxlen1 20 --maxlen2 20",
        steps=5,
        data=(
            sentences("data/a", 40),
            sentences("data/b", 40),
            text("data/vocab", ["<pad>", "<unk>", "<s>", "</s>", *VOCABULARY[3:]]),
        ),
    ),
    *(
        Recipe(
            "tensorflow/nmt",
            f"translation: {what}",
            part=what.replace(" ", "-"),
            steps=10,
            command="-m nmt.nmt --src=a --tgt=b --vocab_prefix=data/vocab --train_prefix=data/train"
            " --dev_prefix=data/dev --test_prefix=data/test --out_dir=out --num_train_steps=10 --steps_per_stats=2"
            " --num_layers=2 --num_units=8 --batch_size=8 --steps_per_external_eval=5 --num_gpus=0 " + flags,
            data=(
                folders("out"),
                *(sentences(f"data/{kind}.{side}", 60) for kind in ("train", "dev", "test") for side in "ab"),
                *(text(f"data/vocab.{side}", VOCABULARY) for side in "ab"),
            ),
        )
        for what, flags in (
            ("plain", "--metrics=bleu,accuracy"),
            ("attention and beam", "--attention=scaled_luong --infer_mode=beam_search --beam_width=3 --dropout=0.2"),
            ("normed Bahdanau bidirectional", "--attention=normed_bahdanau --encoder_type=bi --unit_type=gru"),
            (
                "gnmt residual",
                "--attention=normed_bahdanau --attention_architecture=gnmt_v2 --encoder_type=gnmt"
                " --num_encoder_layers=4 --num_decoder_layers=4 --residual=true --unit_type=layer_norm_lstm",
            ),
        )
    ),
)

RECOMMENDING = (
    Recipe(
        "lambdaji/tf_repos",
        "DeepFM in an Estimator",
        steps=10,
        part="DeepFM",
        folder="deep_ctr/Model_pipeline",
        command="DeepFM.py --task_type=train --learning_rate=0.0005 --optimizer=Adam --num_epochs=1 --batch_size=16"
        " --field_size=5 --feature_size=50 --deep_layers=8,8 --dropout=0.5,0.5 --log_steps=2 --num_threads=1"
        " --model_dir=./model --data_dir=data/ --batch_norm=true",
        data=tuple(
            text(
                f"deep_ctr/Model_pipeline/data/{kind}.libsvm",
                rows(
                    200,
                    lambda rng, _: [
                        rng.integers(0, 2),
                        *(f"{10 * k + rng.integers(0, 10)}:{rng.random():.3f}" for k in range(5)),
                    ],
                    separator=" ",
                ),
            )
            for kind in ("tr1", "va1", "te1")
        ),
    ),
    Recipe(
        "Lapis-Hong/wide_deep",
        "wide and deep, with feature columns",
        steps=10,
        folder="python",
        command="train.py --train_epochs 1 --batch_size 64",
    ),
)

VISION = (
    Recipe(
        "shu-yusa/tensorflow-mirrored-strategy-sample",
        "a CNN by MirroredStrategy",
        "cnn_mnist.py",
        steps=20,
        edits=(
            Edit(
                "cnn_mnist.py",
                r"tf\.contrib\.learn\.datasets\.load_dataset\(\"mnist\"\)",
                '__import__("tensorflow.examples.tutorials.mnist.input_data", fromlist=["x"]).read_data_sets()',
                "data sets that TensorFlow lost",
            ),
            Edit("cnn_mnist.py", r"steps=10000", "steps=20"),
        ),
    ),
    Recipe(
        "argman/EAST",
        "a finder of text, towers made by hand, in slim",
        steps=4,
        command="multigpu_train.py --gpu_list=0,1 --input_size=128 --batch_size_per_gpu=2 --checkpoint_path=out/"
        " --training_data_path=training_samples --num_readers=1 --max_steps=3 --save_checkpoint_steps=2"
        " --save_summary_steps=2",
    ),
)

RECIPES = (*GENERATIVE, *LANGUAGE, *TAGGING, *TRANSLATION, *RECOMMENDING, *VISION)
