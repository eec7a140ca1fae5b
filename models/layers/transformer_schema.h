// Option declarations shared by transformers.
#pragma once

#include <cstdint>
#include <utility>

#include "core/recipe/schema.h"

namespace accel {

/// Declares the number of blocks and of attention heads.
template <class Options>
Schema<Options> with_blocks(Schema<Options> schema) {
  const auto count = at_least<int64_t>(1);
  return std::move(schema)
      .field("num_layers", &Options::num_layers, "Blocks.", count)
      .on_resume(Change::kImpossible)
      .renamed_from("layers")
      .hint_for({"num_hidden_layers", "n_layer", "n_layers", "num_blocks"})
      .field("num_heads", &Options::num_heads, "Attention heads in a block.", count)
      .on_resume(Change::kImpossible)
      .renamed_from("heads")
      .hint_for({"num_attention_heads", "n_head", "n_heads"});
}

/// Declares `vocab_size`, `max_seq_len` with its help, and the blocks.
template <class Options>
Schema<Options> transformer_schema(const char* max_seq_len) {
  return with_blocks(Schema<Options>()
                         .field("vocab_size", &Options::vocab_size, "Token ids are below this.",
                                if_given<Auto>(at_least<int64_t>(2)))
                         .on_resume(Change::kImpossible)
                         .renamed_from("vocab")
                         .hint_for({"n_vocab", "num_embeddings"})
                         .field("max_seq_len", &Options::max_seq_len, max_seq_len,
                                if_given<Auto>(at_least<int64_t>(1)))
                         .on_resume(Change::kImpossible)
                         .renamed_from("context")
                         .hint_for({"max_position_embeddings", "n_positions", "n_ctx", "block_size",
                                    "context_length", "max_seq_length", "max_length", "seq_len"}));
}

/// Declares the sizes of hidden states and MLP.
template <class Options>
Schema<Options> with_sizes(Schema<Options> schema, const char* intermediate_size) {
  const auto count = at_least<int64_t>(1);
  return std::move(schema)
      .field("hidden_size", &Options::hidden_size, "Features of a hidden state.", count)
      .on_resume(Change::kImpossible)
      .renamed_from("width")
      .hint_for({"n_embd", "d_model", "dim", "embed_dim", "hidden_dim"})
      .field("intermediate_size", &Options::intermediate_size, intermediate_size,
             if_given<Auto>(count))
      .on_resume(Change::kImpossible)
      .renamed_from("hidden")
      .hint_for({"n_inner", "d_ff", "ffn_dim", "ffn_hidden_size", "mlp_dim"});
}

/// Declares the epsilon of the norms.
template <class Options>
Schema<Options> with_norm_eps(Schema<Options> schema, const char* help) {
  return std::move(schema)
      .field("norm_eps", &Options::norm_eps, help, more_than(0.0))
      .on_resume(Change::kImpossible)
      .renamed_from("epsilon")
      .hint_for({"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "eps"});
}

/// Declares whether the head is tied to the token embedding.
template <class Options>
Schema<Options> with_tie_embeddings(Schema<Options> schema) {
  return std::move(schema)
      .field("tie_embeddings", &Options::tie_embeddings, "Whether the head is the token embedding.")
      .on_resume(Change::kImpossible)
      .renamed_from("tied")
      .hint_for({"tie_word_embeddings", "weight_tying", "tie_weights"});
}

/// Declares the number of classes, at least `least`.
template <class Options>
Schema<Options> with_num_classes(Schema<Options> schema, const char* help, int64_t least) {
  return std::move(schema)
      .field("num_classes", &Options::num_classes, help, if_given<Auto>(at_least<int64_t>(least)))
      .on_resume(Change::kImpossible)
      .renamed_from("classes")
      .hint_for({"num_labels", "n_classes", "nb_classes"});
}

}  // namespace accel
