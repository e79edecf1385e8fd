"""Programs that train on words: language models, taggers, translation, answers. See `tests.trials.outside_recipe`."""

from tests.trials.outside_data import folders, questions, sentence_lines, sentences, text, values, word_vectors
from tests.trials.outside_recipe import Edit, Recipe

WORDS = sorted({word for line in sentence_lines(400) for word in line.split()})
TOKENS = ["<pad>", "<go>", "<eos>", "<unknown>", *WORDS[:26]]
NER_TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
SHORTER = Edit("data/tinyshakespeare/input.txt", r"(?s)\A(.{60000}).*", r"\1")
SPACY = """import re
import types
class blank:
    def __init__(self, language): pass
    def __call__(self, words): return [types.SimpleNamespace(text=word) for word in re.findall(r"\\w+|[^\\w ]", words)]
"""

SMALL = "--hidden=8 --para_limit=40 --ques_limit=20 --glove_word_size=100 --capacity=48"
AVERAGED = Edit("model.py", r"if v:$", "if v is not None:", "variables")
THREADS = Edit("util.py", r"config.num_threads, dtype=tf.int32", "config.num_threads, dtype=tf.int64", "tf.data")

MODELS = (
    *(
        Recipe(
            "sherjilozair/char-rnn-tensorflow",
            f"a language model of characters, {cell} cells",
            f"train.py --num_epochs 1 --rnn_size 16 --save_every 5 --model {cell} --output_keep_prob 0.8",
            commit="4bff62d34ba6",
            part=cell,
            steps=12,
            edits=(SHORTER,),
        )
        # Its "rnn" is the abstract cell, and it wants pairs as the states of its "gru": TensorFlow 1.15 refuses both.
        for cell in ("lstm", "nas")
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
        "bin/train_elmo.py --save_dir out --vocab_file tests/fixtures/train/vocab.txt"
        " --train_prefix tests/fixtures/train/data.txt",
        commit="7cffee2b0986",
        steps=10,
        python_path=(".",),
        data=(folders("out"),),
        edits=(
            Edit("bin/train_elmo.py", r"batch_size = 128", "batch_size = 2"),
            Edit("bin/train_elmo.py", r"n_gpus = 3", "n_gpus = 2"),
            Edit("bin/train_elmo.py", r"n_train_tokens = \d+", "n_train_tokens = 134"),
            Edit("bin/train_elmo.py", r"'dim': 4096", "'dim': 16"),
            Edit("bin/train_elmo.py", r"'projection_dim': 512", "'projection_dim': 8"),
            Edit("bin/train_elmo.py", r"'n_negative_samples_batch': 8192", "'n_negative_samples_batch': 16"),
        ),
    ),
    Recipe(
        "LantaoYu/SeqGAN",
        "a GAN of sequences",
        "sequence_gan.py",
        commit="e2b52fb63098",
        steps=12,
        edits=(
            Edit(
                "sequence_gan.py",
                r"open\('save/target_params.pkl'\)",
                "open('save/target_params_py3.pkl', 'rb')",
                "Python 2",
            ),
            Edit("sequence_gan.py", r"^generated_num = 10000", "generated_num = 128"),
            Edit("sequence_gan.py", r"^PRE_EPOCH_NUM = 120", "PRE_EPOCH_NUM = 3"),
            Edit("sequence_gan.py", r"^TOTAL_BATCH = 200", "TOTAL_BATCH = 1"),
            Edit("sequence_gan.py", r"range\(50\)", "range(2)"),
            Edit("sequence_gan.py", r"samples, 16, discriminator", "samples, 1, discriminator"),
        ),
    ),
    Recipe(
        "dennybritz/cnn-text-classification-tf",
        "a CNN that classifies sentences",
        "train.py --embedding_dim 8 --num_filters 4 --num_epochs 1 --evaluate_every 20 --checkpoint_every 20",
        steps=30,
    ),
    Recipe(
        "brightmart/text_classification",
        "an LSTM that classifies, its own test",
        "p8_TextRNN_model.py",
        commit="091ff9910839",
        part="TextRNN",
        folder="a03_TextRNN",
        steps=20,
        edits=(Edit("a03_TextRNN/p8_TextRNN_model.py", r"range\(\d+\)", "range(20)"),),
    ),
    Recipe(
        "brightmart/text_classification",
        "a seq2seq with attention, its own test",
        "a1_seq2seq_attention_model.py",
        commit="091ff9910839",
        part="seq2seq",
        folder="a06_Seq2seqWithAttention",
        steps=20,
        edits=(Edit("a06_Seq2seqWithAttention/a1_seq2seq_attention_model.py", r"range\(\d\d+\)", "range(20)"),),
    ),
    Recipe(
        "google-research/bert",
        "a classifier of pairs of sentences",
        "run_classifier.py --task_name=MRPC --do_train=true --do_eval=true --data_dir=data --vocab_file=data/vocab.txt"
        " --bert_config_file=data/bert_config.json --max_seq_length=16 --train_batch_size=8 --num_train_epochs=2"
        " --output_dir=out --save_checkpoints_steps=4",
        commit="eedf5716ce12",
        steps=8,
        data=(
            text("data/vocab.txt", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]),
            values(
                "data/bert_config.json",
                {
                    "vocab_size": 5 + len(WORDS),
                    "hidden_size": 16,
                    "num_hidden_layers": 2,
                    "num_attention_heads": 2,
                    "intermediate_size": 32,
                    "max_position_embeddings": 32,
                },
            ),
            *(
                text(
                    f"data/{kind}.tsv",
                    ["label\ta\tb\tone\ttwo"]
                    + [f"{n % 2}\t{n}\t{n}\t{line}\t{line}" for n, line in enumerate(sentence_lines(40))],
                )
                for kind in ("train", "dev")
            ),
        ),
    ),
    Recipe(
        "google-research/bert",
        "masked words and next sentences",
        "run_pretraining.py --input_file=data/out.tfrecord --output_dir=out --do_train=true --do_eval=true"
        " --bert_config_file=data/bert_config.json --train_batch_size=4 --max_seq_length=32"
        " --max_predictions_per_seq=5 --num_train_steps=6 --num_warmup_steps=2 --max_eval_steps=2",
        commit="eedf5716ce12",
        part="pretraining",
        steps=6,
        before=(
            "create_pretraining_data.py --input_file=data/in.txt --output_file=data/out.tfrecord"
            " --vocab_file=data/vocab.txt --max_seq_length=32 --max_predictions_per_seq=5 --dupe_factor=2",
        ),
        data=(
            text("data/vocab.txt", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]),
            text("data/in.txt", "\n\n".join("\n".join(sentence_lines(20)) for _ in range(4))),
            values(
                "data/bert_config.json",
                {
                    "vocab_size": 5 + len(WORDS),
                    "hidden_size": 16,
                    "num_hidden_layers": 2,
                    "num_attention_heads": 2,
                    "intermediate_size": 32,
                    "max_position_embeddings": 32,
                },
            ),
        ),
    ),
)

TAGGING = (
    *(
        Recipe(
            "guillaumegenthial/tf_ner",
            f"{what} in an Estimator",
            "main.py",
            commit="e9bca45c7a3d",
            part=folder,
            folder=f"models/{folder}",
            steps=10,
            data=(values("data/example/glove.npz", {"embeddings": [[0.1] * 300] * 200}),),
            edits=(Edit(f"models/{folder}/main.py", r"if ema_var else", "if ema_var is not None else", "variables"),)
            if folder.endswith("_ema")
            else (),
        )
        for folder, what in (
            ("lstm_crf", "LSTM and CRF"),
            ("chars_lstm_lstm_crf", "LSTM of characters and words, CRF"),
            ("chars_conv_lstm_crf_ema", "convolutions of characters, LSTM, CRF, averages of variables"),
        )
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
                    for line in [*(f"{word} {NER_TAGS[sum(map(ord, word)) % 5]}" for word in block.split()), ""]
                ],
            ),
            word_vectors("data/glove.6B/glove.6B.300d.txt", WORDS),
        ),
        edits=(Edit("model/config.py", r"nepochs\s*=\s*15", "nepochs = 3"),),
    ),
    Recipe(
        "cs230-stanford/cs230-code-examples",
        "LSTM tagger, on tables of words",
        "train.py --model_dir experiments/base_model --data_dir data/small",
        commit="478e747b1c8b",
        part="tagger",
        folder="tensorflow/nlp",
        steps=6,
        before=("build_vocab.py",),
    ),
)

TRANSLATION = (
    Recipe(
        "Kyubyong/transformer",
        "a transformer that translates",
        "train.py --train1 data/a --train2 data/b --eval1 data/a --eval2 data/b --eval3 data/b --vocab data/vocab"
        ""
        f" --vocab_size {4 + len(WORDS)}"
        " --batch_size 8 --d_model 16 --d_ff 32 --num_blocks 2 --num_heads 2 --num_epochs 1 --maxlen1 20 --maxlen2 10",
        commit="fb023bb097e0",
        steps=5,
        data=(
            sentences("data/a", 80),
            sentences("data/b", 80),
            text("data/vocab", ["<pad>", "<unk>", "<s>", "</s>", *WORDS]),
        ),
    ),
    *(
        Recipe(
            "tensorflow/nmt",
            f"translation: {what}",
            "-m nmt.nmt --src=a --tgt=b --vocab_prefix=data/vocab --train_prefix=data/train --dev_prefix=data/dev"
            " --test_prefix=data/test --out_dir=out --num_train_steps=10 --steps_per_stats=2 --num_layers=2"
            " --num_units=8 --batch_size=8 --steps_per_external_eval=5 --num_gpus=0 " + flags,
            commit="0be864257a76",
            part=what.replace(" ", "-"),
            steps=10,
            data=(
                folders("out"),
                *(sentences(f"data/{kind}.{side}", 60) for kind in ("train", "dev", "test") for side in "ab"),
                *(text(f"data/vocab.{side}", ["<unk>", "<s>", "</s>", *WORDS]) for side in "ab"),
            ),
        )
        for what, flags in (
            ("plain", "--metrics=bleu,accuracy"),
            ("attention and beam", "--attention=scaled_luong --infer_mode=beam_search --beam_width=3 --dropout=0.2"),
            ("normed Bahdanau bidirectional", "--attention=normed_bahdanau --encoder_type=bi --unit_type=gru"),
            (
                "gnmt residual",
                "--attention=normed_bahdanau --attention_architecture=gnmt_v2 --encoder_type=gnmt --residual=true"
                " --num_encoder_layers=4 --num_decoder_layers=4 --unit_type=layer_norm_lstm",
            ),
        )
    ),
    Recipe(
        "princewen/tensorflow_practice",
        "a chat bot: seq2seq with attention",
        "train.py --rnn_size 8 --embedding_size 8 --batch_size 4 --numEpochs 1 --steps_per_checkpoint 5",
        commit="b3696f757a96",
        part="chat-bot",
        folder="nlp/chat_bot_seq2seq_attention",
        steps=10,
        data=(
            values(
                "nlp/chat_bot_seq2seq_attention/data/dataset-cornell-length10-filter1-vocabSize40000.pkl",
                {
                    "word2id": {word: n for n, word in enumerate(TOKENS)},
                    "id2word": dict(enumerate(TOKENS)),
                    "trainingSamples": [[[4 + n % 20, 5, 6], [7, 4 + n % 20]] for n in range(48)],
                },
            ),
        ),
    ),
)

ANSWERING = tuple(
    Recipe(
        repository,
        f"finds answers in texts: {name}",
        f"config.py --mode=train --batch_size=4 --num_steps=6 --checkpoint=3 --period=2 --val_num_batches=2 {flags}",
        steps=6,
        commit=commit,
        before=(f"config.py --mode=prepro {flags}",),
        data=(
            text("spacy.py", SPACY),
            questions(f"{place}/squad/train-v1.1.json"),
            questions(f"{place}/squad/dev-v1.1.json"),
            word_vectors(f"{place}/glove/glove.840B.300d.txt", WORDS),
        ),
        edits=edits,
    )
    for repository, commit, name, place, flags, edits in (
        ("NLPLearn/QANet", "8107d2238977", "QANet", "datasets", f"{SMALL} --ans_limit=5", (THREADS, AVERAGED)),
        (
            "HKUST-KnowComp/R-Net",
            "1efc5ef18067",
            "R-Net",
            "data",
            f"{SMALL} --use_cudnn=false",
            (
                THREADS,
                Edit("model.py", r"outer, 0, 15\)", "outer, 0, 5)"),
                Edit("config.py", r'os\.path\.expanduser\("~"\)', "os.getcwd()", "paths"),
            ),
        ),
    )
)

RECIPES = (*MODELS, *TAGGING, *TRANSLATION, *ANSWERING)
