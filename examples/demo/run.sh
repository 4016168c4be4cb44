#!/bin/bash
# The demo: real batches on a cluster on this machine, each with its figures and its check.
#   TANDEM_BIN=… TANDEM_DATA=… TANDEM_OUT=… examples/demo/run.sh [CHAPTER…]
# Chapters: kmers images options pi devices. `./dev demo` builds, fetches the data and runs all of them.
set -euo pipefail
exec python3 "$(dirname "$(readlink -f "$0")")/demo.py" --bin "$TANDEM_BIN" --data "$TANDEM_DATA" --out "$TANDEM_OUT" "$@"
