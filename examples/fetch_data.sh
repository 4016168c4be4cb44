#!/bin/bash
# fetch_data.sh FOLDER: brings the demo's real input into FOLDER, out of two Debian packages that are
# downloaded and unpacked but not installed (so nothing that they depend on is needed):
#   h37rv.fna     the genome of M. tuberculosis H37Rv (kmer-examples)
#   leprae.fna    the genome of M. leprae TN (kmer-examples)
#   photos/       the PNG and JPEG pictures of scikit-image of 4 KiB or more, and one JPEG that is cut
#                 short, truncated.jpg (python3-skimage)
# Does nothing when they are already there.
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: fetch_data.sh FOLDER" >&2; exit 2; }
folder=$1
[ -s "$folder/h37rv.fna" ] && [ -s "$folder/leprae.fna" ] && [ -s "$folder/photos/truncated.jpg" ] && exit 0
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d "$folder/unpack.XXXXXX")
trap 'rm -rf "$work"' EXIT

download() {
  local options=()
  [ "$(id -u)" -ne 0 ] || options=(-o APT::Sandbox::User=root)
  (cd "$work" && apt-get -q "${options[@]}" download kmer-examples python3-skimage) </dev/null
}

echo "Downloading the demo's data (23 MB): Debian packages kmer-examples and python3-skimage"
if ! download; then
  as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get -q update </dev/null || true
  download || { echo "fetch_data: the packages could not be downloaded; apt-get says why above" >&2
                exit 1; }
fi
for package in "$work"/*.deb; do dpkg -x "$package" "$work/root"; done

genome() {
  tar -xzOf "$work/root/usr/share/doc/kmer-examples/test_data.tar.gz" --wildcards "$1_*.fna" >"$work/$2"
}
genome GCF_000195955.2 h37rv.fna
genome GCF_000195855.1 leprae.fna
mkdir "$work/photos"
find "$work/root/usr/lib/python3/dist-packages/skimage/data" -maxdepth 1 \
  \( -name '*.png' -o -name '*.jpg' \) \( -size +4095c -o -name truncated.jpg \) \
  -exec cp -t "$work/photos" {} +

rm -rf "$folder/photos"
mv "$work/photos" "$work/h37rv.fna" "$work/leprae.fna" "$folder"
echo "$folder: h37rv.fna, leprae.fna and $(find "$folder/photos" -type f | wc -l) pictures"
