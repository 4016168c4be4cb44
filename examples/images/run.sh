#!/bin/bash
# A batch of photographs: small copies of all of them, then the edges in each small copy.
#
#   examples/images/run.sh PHOTOS OUT
#
# PHOTOS is a folder of PNG and JPEG pictures, OUT a folder that this makes. The cluster is the one that `tandem`
# talks to (`tandem up &`). A picture that cannot be read costs its own task and nothing else.
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
photos=$1 out=$2
mkdir -p "$out"

# A folder is a ragged operand, a file a task; so is what comes out, named as what went in.
tandem run image_thumbnail image=@"$photos"/ side=96 --out thumbnail=@"$out"/small/ --allow-failed --force --quiet
tandem run image_sobel image=@"$out"/small/ --out edges=@"$out"/edges/ --force --quiet

# Are they right? Read and computed again by plain Python.
python3 "$(dirname "$0")/check.py" "$photos" "$out"
