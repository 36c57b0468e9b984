#!/usr/bin/env bash
# SGLang 0.5.18, by specplan
# Replace TARGET_MODEL: the target of the profile is Llama-3.1-8B-Instruct.
# Load: it pays at every load that the service can sustain, tried up to 31.8 requests a second (without speculation it sustains 27.7).
# Replace DRAFT_MODEL: the draft of the profile is not named by the profile.
# The profile does not say which EAGLE it is: name eagle3 for EAGLE-3 heads.
# --mem-fraction-static is left to SGLang: it counts weights and KV pool without activations and CUDA graphs, unlike a plan_s memory_utilization. Weights and the 408,688 KV tokens of the plan are 0.898 of the memory. Compare them with max_total_num_tokens in SGLang_s log; where SGLang keeps fewer, raise --mem-fraction-static up to that as far as activations leave room, or state what it keeps as kv_cache_tokens and plan again.
# SGLang has no max_num_batched_tokens; its prefill chunks have a limit of their own.
# --max-running-requests is given because SGLang falls to 48 without it once a speculative algorithm is set; chunked prefill is not mixed with decoding then.
set -euo pipefail
exec python -m sglang.launch_server --model-path TARGET_MODEL --speculative-algorithm EAGLE --speculative-draft-model-path DRAFT_MODEL --speculative-num-steps 5 --speculative-eagle-topk 1 --speculative-num-draft-tokens 6 --max-running-requests 64 --cuda-graph-max-bs 64 --max-total-tokens 408688 --enable-metrics
