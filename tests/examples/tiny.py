"""Makes a model of CTranslate2 with random weights, small enough for a test.

    tiny.py translation|whisper FOLDER [SEED]

Run by an interpreter that has ctranslate2 and numpy: the model is written by ctranslate2.specs, as its
converters write one, so the library reads it like any other.
"""

import pathlib
import sys

import numpy as np
from ctranslate2.specs import TransformerSpec, WhisperSpec

DEPTH, MELS = 8, 80
WORDS = ["<blank>", "<unk>", "<s>", "</s>", "one", "two", "three", "four"]
WHISPER = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>",
           "<|nospeech|>", "one", "two"]


class Weights:
    """Fills the arrays of a specification with random numbers."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def array(self, *shape):
        return self.random.normal(size=shape).astype(np.float32)

    def linear(self, spec, outputs, inputs=DEPTH):
        spec.weight, spec.bias = self.array(outputs, inputs), self.array(outputs)

    def norm(self, spec):
        spec.gamma, spec.beta = np.ones(DEPTH, np.float32), np.zeros(DEPTH, np.float32)

    def layer(self, spec):
        for name in ("self_attention", "attention"):
            attention = getattr(spec, name, None)
            if attention is not None:
                self.norm(attention.layer_norm)
                # One matrix for queries, keys and values; or keys and values of the encoder.
                outputs = (3 * DEPTH,) if len(attention.linear) == 2 else (DEPTH, 2 * DEPTH)
                for linear, n in zip(attention.linear, (*outputs, DEPTH)):
                    self.linear(linear, n)
        self.norm(spec.ffn.layer_norm)
        self.linear(spec.ffn.linear_0, 2 * DEPTH)
        self.linear(spec.ffn.linear_1, DEPTH, 2 * DEPTH)

    def stack(self, spec, positions, words):
        spec.position_encodings.encodings = self.array(positions, DEPTH)
        self.norm(spec.layer_norm)
        for layer in spec.layer:
            self.layer(layer)
        if words:
            embeddings = spec.embeddings
            for one in embeddings if isinstance(embeddings, list) else [embeddings]:
                one.weight = self.array(words, DEPTH)


def translation(weights):
    spec = TransformerSpec.from_config(num_layers=1, num_heads=2, pre_norm=True)
    weights.stack(spec.encoder, 64, len(WORDS))
    weights.stack(spec.decoder, 64, len(WORDS))
    weights.linear(spec.decoder.projection, len(WORDS))
    spec.register_source_vocabulary(WORDS)
    spec.register_target_vocabulary(WORDS)
    return spec


def whisper(weights):
    spec = WhisperSpec(1, 2, 1, 2)
    for conv, inputs in ((spec.encoder.conv1, MELS), (spec.encoder.conv2, DEPTH)):
        conv.weight, conv.bias = weights.array(DEPTH, inputs, 3), weights.array(DEPTH)
    weights.stack(spec.encoder, 1500, 0)
    weights.stack(spec.decoder, 448, len(WHISPER))
    weights.linear(spec.decoder.projection, len(WHISPER))
    spec.register_vocabulary(WHISPER)
    spec.config.suppress_ids = spec.config.suppress_ids_begin = spec.config.lang_ids = []
    spec.config.alignment_heads = [(0, 0)]
    return spec


def main():
    kind, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    spec = {"translation": translation, "whisper": whisper}[kind](Weights(int(*sys.argv[3:] or [1])))
    folder.mkdir(parents=True)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))


if __name__ == "__main__":
    main()
