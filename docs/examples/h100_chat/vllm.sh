#!/usr/bin/env bash
# vLLM 0.28, by specplan
# Replace TARGET_MODEL: the target of the profile is Llama-3.1-8B-Instruct.
# Load: it pays at every load that the service can sustain, tried up to 31.8 requests a second (without speculation it sustains 27.7).
# Replace DRAFT_MODEL: the draft of the profile is not named by the profile.
# The profile does not say which EAGLE it is: name eagle3 for EAGLE-3 heads.
# max_cudagraph_capture_size holds max_num_seqs x (1 + K) tokens: beyond it a step runs eagerly and its time jumps.
set -euo pipefail
exec vllm serve TARGET_MODEL --max-num-seqs 64 --max-num-batched-tokens 8192 --gpu-memory-utilization 0.9 --compilation-config '{"max_cudagraph_capture_size":384}' --speculative-config '{"method":"eagle","model":"DRAFT_MODEL","num_speculative_tokens":5}'
