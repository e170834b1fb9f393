# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write a llama model of random weights, half a megabyte: it says nothing, and llama.cpp serves it like any other. Needs numpy and gguf."""

from __future__ import annotations

import sys

import gguf
import numpy

WIDTH, INNER, HEADS, BLOCKS, CONTEXT = 64, 128, 4, 2, 4096


def write(path: str) -> None:
    """Write the model."""
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % number for number in range(256)), *(letter.encode() for letter in "\u2581abcdefghijklmnopqrstuvwxyz")]
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2, *[gguf.TokenType.BYTE] * 256, *[gguf.TokenType.NORMAL] * 27]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(BLOCKS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(number) for number in range(len(tokens))])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    random = numpy.random.default_rng(7)
    shapes = {"token_embd.weight": (len(tokens), WIDTH), "output.weight": (len(tokens), WIDTH), "output_norm.weight": None}
    for block in range(BLOCKS):
        shapes |= {f"blk.{block}.{name}.weight": (WIDTH, WIDTH) for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
        shapes |= {f"blk.{block}.{name}.weight": (INNER, WIDTH) for name in ("ffn_gate", "ffn_up")}
        shapes |= {f"blk.{block}.ffn_down.weight": (WIDTH, INNER), f"blk.{block}.attn_norm.weight": None, f"blk.{block}.ffn_norm.weight": None}
    for name, shape in shapes.items():
        weights = numpy.ones(WIDTH) if shape is None else random.standard_normal(shape) * 0.05
        writer.add_tensor(name, weights.astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(sys.argv[1])
