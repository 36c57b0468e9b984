#!/usr/bin/env bash
# llama.cpp b10400, by specplan
# Replace TARGET_MODEL: the target of the profile is Llama-3.1-8B-Instruct.
# Load: it pays at every load that the service can sustain, tried up to 31.8 requests a second (without speculation it sustains 27.7).
# llama.cpp reads GGUF files: TARGET_MODEL.gguf stands for Llama-3.1-8B-Instruct.
# Replace DRAFT_MODEL: the draft of the profile is not named by the profile.
# The profile does not say which EAGLE it is: name eagle3 for EAGLE-3 heads.
# Each of 64 slots owns 3,077 tokens of the 196,928 tokens of KV.
# llama.cpp has EAGLE-3 and MTP heads; EAGLE heads of other kinds do not load.
set -euo pipefail
exec llama-server --model TARGET_MODEL.gguf --parallel 64 --ctx-size 196928 --batch-size 8192 --n-gpu-layers 999 --spec-type draft-eagle3 --spec-draft-model DRAFT_MODEL.gguf --spec-draft-ngl 999 --spec-draft-n-max 5 --spec-draft-n-min 0 --spec-draft-p-min 0 --metrics
