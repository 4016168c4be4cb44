#!/bin/bash
# A batch of options: a book in CSV, priced, and what it is worth.
#
#   examples/options/run.sh OUT [BOOK.csv]
#
# A line of the book is `spot,strike,years`, the first line their names; without one, `book.py` writes a chain of
# 100,000 options of 10 stocks. OUT is a folder that this makes. The cluster is the one that `tandem` talks to
# (`tandem up &`).
set -euo pipefail
[ $# -ge 1 ] && [ $# -le 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
out=$1 here=$(dirname "$0")
mkdir -p "$out"
book=${2:-$out/book.csv}
[ $# -eq 2 ] || python3 "$here/book.py" write "$book"

# Columns become arrays of float32: raw files, whose extent says how many options there are.
python3 "$here/book.py" columns "$book" "$out"
# One of the options may be wrong (negative years): it fails alone.
tandem run black_scholes spot=@"$out"/spot.f32 strike=@"$out"/strike.f32 years=@"$out"/years.f32 \
  rate=0.03 volatility=0.25 --out call=@"$out"/call.f32 --out put=@"$out"/put.f32 --allow-failed --force --quiet

# Are they right? Priced again in double precision, by another formula.
python3 "$here/book.py" check "$book" "$out" 0.03 0.25
