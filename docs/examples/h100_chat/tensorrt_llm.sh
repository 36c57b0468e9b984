#!/usr/bin/env bash
# TensorRT-LLM 1.4.0rc0, by specplan
# Replace TARGET_MODEL: the target of the profile is Llama-3.1-8B-Instruct.
# Load: it pays at every load that the service can sustain, tried up to 31.8 requests a second (without speculation it sustains 27.7).
# Replace DRAFT_MODEL: the draft of the profile is not named by the profile.
# The profile does not say which EAGLE it is: name eagle3 for EAGLE-3 heads.
# free_gpu_memory_fraction is a share of what the weights leave free, while the plan_s memory_utilization is one of the whole memory: check the KV cache that the engine reports.
# Versions before --config call that flag --extra_llm_api_options.
set -euo pipefail
case "$0" in */*) cd -- "${0%/*}" ;; esac
exec trtllm-serve TARGET_MODEL --config tensorrt_llm.yaml
