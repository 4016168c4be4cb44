#!/bin/bash
# install_packages.sh GROUP...: installs the packages of these groups of debian-packages.txt that
# are missing. Asks nothing; needs root or sudo only when something is missing.
set -euo pipefail

list="$(dirname "$(readlink -f "$0")")/debian-packages.txt"
die() { echo "install_packages: $*" >&2; exit 1; }

[ $# -gt 0 ] || die "name at least one group of $list"
command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || die \
  "this system has no apt. Tandem's dependencies are Debian 12 or Ubuntu 24.04 packages: install" \
  "what $list names by other means, then use cmake --preset release"

wanted=()
for group in "$@"; do
  mapfile -t names < <(awk -v g="[$group]" '/^\[/ {on = $0 == g; next} on && !/^#/ && NF {print $1}' "$list")
  [ ${#names[@]} -gt 0 ] || die "$list has no group [$group]"
  wanted+=("${names[@]}")
done

missing_packages() {
  local have
  # dpkg-query fails when it knows one of them not; what it knows it prints all the same.
  have=" $( (dpkg-query -W -f '${db:Status-Abbrev}|${Package}\n' "${wanted[@]}" 2>/dev/null || true) |
    awk -F'|' '$1 ~ /^.i/ {print $2}' | tr '\n' ' ')"
  for name in "${wanted[@]}"; do
    case "$have" in *" $name "*) ;; *) echo "$name" ;; esac
  done
}

missing=$(missing_packages)
mapfile -t missing <<<"$missing"
[ -n "${missing[0]}" ] || missing=()
[ ${#missing[@]} -gt 0 ] || exit 0

. /etc/os-release
case "${ID:-}-${VERSION_ID:-}" in
  debian-12 | ubuntu-24.04) ;;
  *) echo "install_packages: ${PRETTY_NAME:-this system} is neither Debian 12, which Tandem is tested on," \
       "nor Ubuntu 24.04, where it is expected to work; trying its packages" >&2 ;;
esac

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || die "missing packages: ${missing[*]}" \
    "- run this as root, or install sudo"
  as_root=(sudo)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" </dev/null; }

echo "Installing ${#missing[@]} packages: ${missing[*]}"
# A mirror that fails to answer is no error as long as the packages can be had.
apt update || echo "install_packages: apt-get update failed; trying with the lists at hand" >&2
apt install --no-install-recommends "${missing[@]}" ||
  die "apt-get could not install: ${missing[*]}. Its messages above say why; run it again once that" \
    "is mended"
