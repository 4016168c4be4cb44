#!/bin/bash
# A k-mer count over many genomes: one job a genome, all of them under way at once, and what the counts say.
#
#   examples/genomes/run.sh OUT GENOME.fna...
#
# The genomes here are pieces: `pieces.py` cuts each record of the files given into pieces of about 300,000 bases, so
# that two bacteria make a few dozen. Then, from the counts alone: the pieces of a record add up to the whole of it,
# word for word, and each piece is told to be of the species that it is of. OUT is a folder that this makes. The
# cluster is the one that `tandem` talks to (`tandem up &`).
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
out=$1 here=$(dirname "$0") k=6
shift
rm -rf "$out"
mkdir -p "$out/pieces" "$out/counts"
python3 "$here/pieces.py" cut $k "$out/pieces" "$@"

# One job a piece, and one for each file as a whole. Nothing is waited for until all of them are submitted.
jobs=()
for genome in "$@" "$out"/pieces/*.fna; do
  name=$(basename "$genome" .fna)
  jobs+=("$(tandem submit kmer_count base=@"$genome" k=$k --name "$name" -o name):$name")
done
tandem job wait "${jobs[0]%%:*}-${jobs[-1]%%:*}" --quiet 2>"$out/wait.log" || { cat "$out/wait.log" >&2; exit 1; }
for job in "${jobs[@]}"; do
  tandem job results "${job%%:*}" --out count=@"$out/counts/${job#*:}.npy"
done

python3 "$here/pieces.py" compare "$out/pieces" "$out/counts" "$@"
